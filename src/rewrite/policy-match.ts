import type { AccelerationPolicySpec } from '../api/kinds/acceleration-policy.js';
import { accelerationPolicySpec } from '../api/kinds/acceleration-policy.js';
import type { LabelSelector } from '../api/label-selector.js';
import { matchesSelector, selectorProblem } from '../api/label-selector.js';
import { format } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import type { ImagePattern } from './image-pattern.js';
import { matchesPattern, parsePattern } from './image-pattern.js';

/** An AccelerationPolicy that can be evaluated. */
export interface Policy {
  name: string;
  /** Changes with each edit of the spec: answers found under an older one are not reused. */
  generation: number;
  spec: AccelerationPolicySpec;
  namespaces: LabelSelector | undefined;
  images: readonly ImagePattern[] | undefined;
  excludes: readonly ImagePattern[];
}

export type PolicyReading = { ok: true; policy: Policy } | { ok: false; name: string; problem: string };

/**
 * Checks one AccelerationPolicy as the API server stores it. A bad one is ignored as a whole, with a text that says why: half of a
 * policy (say, its images without its excludes) would rewrite what its author meant to protect.
 */
export function readPolicy(raw: { metadata: { name: string; generation?: number }; spec?: unknown }): PolicyReading {
  const { name, generation = 0 } = raw.metadata;
  const bad = (problem: string): PolicyReading => ({
    ok: false,
    name,
    problem: `AccelerationPolicy ${name} is ignored: ${problem}`,
  });
  const parsed = accelerationPolicySpec.safeParse(raw.spec);
  if (!parsed.success) return bad(parsed.error.issues.map((i) => `spec.${i.path.join('.')}: ${i.message}`).join('; '));
  const spec = parsed.data;
  const match = spec.match ?? {};
  const selector = selectorProblem(match.namespaceSelector);
  if (selector !== undefined) return bad(`spec.match.namespaceSelector.${selector}`);
  const images = match.images?.map(parsePattern);
  const excludes = (match.excludeImages ?? []).map(parsePattern);
  const problem = [...(images ?? []), ...excludes].find((p) => typeof p === 'string');
  if (problem !== undefined) return bad(`spec.match: ${problem}`);
  return {
    ok: true,
    policy: {
      name,
      generation,
      spec,
      namespaces: match.namespaceSelector,
      images: images?.filter(isPattern),
      excludes: excludes.filter(isPattern),
    },
  };
}

function isPattern(p: ImagePattern | string): p is ImagePattern {
  return typeof p !== 'string';
}

/** Sorts policies in the order in which they are asked: highest priority first, ties by name. */
export function inOrder(policies: readonly Policy[]): Policy[] {
  return [...policies].sort((a, b) => b.spec.priority - a.spec.priority || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** Most images whose policy is remembered; what a hundred thousand images would take is not worth it. */
const MAX_REMEMBERED = 10_000;
/** By list of policies, which is another one after each change; within it by namespace and image. */
const remembered = new WeakMap<readonly Policy[], Map<string, Policy | undefined>>();
const numbers = new WeakMap<Readonly<Record<string, string>>, number>();
let nextNumber = 0;

/**
 * The policy that decides about an image in a namespace with these labels: the first that matches of `policies` as `inOrder` gives them.
 * Answers are remembered by the identity of both lists, which therefore must not be changed in place.
 */
export function pickPolicy(
  policies: readonly Policy[],
  namespaceLabels: Readonly<Record<string, string>>,
  reference: Reference,
): Policy | undefined {
  const known = remembered.get(policies) ?? new Map<string, Policy | undefined>();
  remembered.set(policies, known);
  const number = numbers.get(namespaceLabels) ?? nextNumber++;
  numbers.set(namespaceLabels, number);
  const key = `${number} ${format(reference)}`;
  const answer = known.get(key);
  if (answer !== undefined || known.has(key)) return answer;
  if (known.size >= MAX_REMEMBERED) known.clear();
  const found = policies.find((policy) => decidesAbout(policy, namespaceLabels, reference));
  known.set(key, found);
  return found;
}

function decidesAbout(
  { namespaces, images, excludes }: Policy,
  labels: Readonly<Record<string, string>>,
  reference: Reference,
): boolean {
  return (
    matchesSelector(namespaces, labels) &&
    (images === undefined || images.some((i) => matchesPattern(i, reference))) &&
    !excludes.some((i) => matchesPattern(i, reference))
  );
}
