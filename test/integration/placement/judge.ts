import type { KubeObject } from '../../../src/api/object.js';
import { podRequests } from '../../../src/api/pod-requests.js';
import { decideGang } from '../../../src/controller/gangs/decide.js';
import type { Candidates } from '../../../src/placement/candidates.js';
import { candidates } from '../../../src/placement/candidates.js';
import type { RuntimeClassFacts } from '../../../src/placement/capability.js';
import { runtimeClassFacts } from '../../../src/placement/capability.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { gang } from '../../unit/controller/fixtures.js';
import { RUNTIME_CLASSES } from './arbitraries.js';

export type Spec = Record<string, unknown>;

/** What Harbinger makes of a Pod that waits in a queue as a template. */
export function judge(
  spec: Spec,
  nodes: readonly NodeFacts[],
  change: { withoutClass?: boolean; requests?: Spec } = {},
): Candidates {
  const podSets = [{ name: 'main', count: 1, template: { metadata: {}, spec } }];
  const decision = decideGang({
    gang: { ...gang().gang, podSets },
    optIn: { optedIn: true, problems: [] },
    queueFlavors: [],
    flavors: new Map(),
  });
  if (decision.do !== 'apply') throw new Error(decision.why);
  const [target] = decision.object.spec.targets;
  if (target === undefined) throw new Error('the gang has no target');
  const runtimeClass = change.withoutClass === true ? undefined : classOf(spec);
  const requests = podRequests({ ...(change.requests ?? spec), overhead: runtimeClass?.overhead });
  return candidates(target, nodes, { requests, runtimeClass });
}

/** The RuntimeClass of a Pod as Harbinger knows it. */
export function classOf(spec: Spec): RuntimeClassFacts | undefined {
  const raw = RUNTIME_CLASSES.find((c) => c.metadata.name === spec['runtimeClassName']);
  return raw === undefined ? undefined : runtimeClassFacts(raw as KubeObject & Spec);
}

type Broken = (spec: Spec, nodes: readonly NodeFacts[]) => Candidates;

/** Judges that forgot one thing each: on the Pods of this test each has to differ from the scheduler. */
export const BROKEN: Readonly<Record<string, Broken>> = {
  'taints of NoExecute': (spec, nodes) =>
    judge(
      spec,
      nodes.map((n) => ({ ...n, taints: n.taints.filter((t) => t.effect !== 'NoExecute') })),
    ),
  cordons: (spec, nodes) =>
    judge(
      spec,
      nodes.map((n) => ({ ...n, unschedulable: false })),
    ),
  'how many Pods a node takes': (spec, nodes) =>
    judge(
      spec,
      nodes.map((n) => ({ ...n, allocatable: { ...n.allocatable, pods: 110 } })),
    ),
  'init containers': (spec, nodes) => judge(spec, nodes, { requests: { ...spec, initContainers: [] } }),
  'resources of the Pod as a whole': (spec, nodes) => judge(spec, nodes, { requests: { ...spec, resources: {} } }),
  'the RuntimeClass': (spec, nodes) => judge(spec, nodes, { withoutClass: true }),
  'required affinity': (spec, nodes) => judge({ ...spec, affinity: {} }, nodes),
  tolerations: (spec, nodes) => judge({ ...spec, tolerations: [] }, nodes),
};

/** Names of judged nodes among candidates. */
export function among(found: Candidates, judged: readonly string[]): string[] {
  return found.nodes.map((n) => n.name).filter((name) => judged.includes(name));
}

/** Pods that some nodes can take and some cannot: those of which all or none can prove little. */
export function telling(specs: readonly Spec[], nodes: readonly NodeFacts[], judged: readonly string[]): Spec[] {
  return specs.filter((spec) => {
    const n = among(judge(spec, nodes), judged).length;
    return n > 0 && n < judged.length;
  });
}

/** For each judge of BROKEN the first `each` Pods that show what it forgot. */
export function revealing(
  specs: readonly Spec[],
  nodes: readonly NodeFacts[],
  { judged, each }: { judged: readonly string[]; each: number },
): Spec[] {
  const differs = (spec: Spec, broken: Broken): boolean =>
    among(broken(spec, nodes), judged).join() !== among(judge(spec, nodes), judged).join();
  return Object.values(BROKEN).flatMap((broken) => specs.filter((spec) => differs(spec, broken)).slice(0, each));
}
