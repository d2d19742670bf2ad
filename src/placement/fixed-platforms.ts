import { platformText } from '../images/platform.js';
import type { Constraints } from './constraints.js';
import type { AffinityTerm } from './filters/node-affinity.js';

const ARCH = 'kubernetes.io/arch';
const OS = 'kubernetes.io/os';

/**
 * Platforms (`os/architecture`) that the required selectors of a Pod leave, on nodes of now and of later; undefined where a way in
 * leaves the architecture open. Each affinity term is a way in of its own. Kubelets set both labels and correct them.
 * @param systems operating systems of nodes of now, which a Pod that selects none may land on beside linux
 */
export function fixedPlatforms({ nodeSelector, terms }: Constraints, systems: Iterable<string> = []): string[] | undefined {
  const left = new Set<string>();
  const open = [...new Set(['linux', ...systems])];
  for (const term of terms ?? [{}]) {
    const architectures = valuesLeft(ARCH, nodeSelector, term);
    if (architectures === undefined) return undefined;
    for (const os of valuesLeft(OS, nodeSelector, term) ?? open)
      for (const architecture of architectures) left.add(platformText(os, architecture));
  }
  // Selectors that contradict each other fix nothing that could be covered.
  return left.size === 0 ? undefined : [...left].sort();
}

/** Values of a label that the selector and the term demand together; undefined where they demand none. */
function valuesLeft(key: string, nodeSelector: Constraints['nodeSelector'], term: AffinityTerm): string[] | undefined {
  const demands = (term.matchExpressions ?? []).filter((r) => r.key === key && r.operator === 'In').map((r) => r.values ?? []);
  const own = Object.hasOwn(nodeSelector, key) ? [[nodeSelector[key] ?? '']] : [];
  const [first, ...others] = [...own, ...demands];
  return first?.filter((value) => others.every((values) => values.includes(value)));
}
