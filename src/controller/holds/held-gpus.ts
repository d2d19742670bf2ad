import { templateFacts } from '../../gangs/pod-templates.js';
import type { Gang } from '../../gangs/shape.js';

/**
 * GPUs that a gang has reserved: what its Pods ask for of extended resources with "gpu" in their name; where they ask for none of
 * these, of all extended resources, since accelerators of other makers are named otherwise.
 */
export function gpusOf({ podSets }: Pick<Gang, 'podSets'>): number {
  const sums = { gpu: 0, any: 0 };
  for (const { template, count } of podSets) {
    for (const [name, amount] of Object.entries(templateFacts(template).requests)) {
      if (!isExtended(name)) continue;
      sums.any += amount * count;
      if (/gpu/i.test(name)) sums.gpu += amount * count;
    }
  }
  return sums.gpu > 0 ? sums.gpu : sums.any;
}

/** Extended resources have a domain that is not Kubernetes' own (API conventions, "Extended Resources"). */
function isExtended(name: string): boolean {
  const slash = name.indexOf('/');
  return slash > 0 && !/(^|\.)kubernetes\.io$/.test(name.slice(0, slash));
}
