import { createHash } from 'node:crypto';
import { at, record, time } from '../../api/json.js';
import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { PrewarmTarget } from '../../api/kinds/image-prewarm.js';
import type { OwnerReference } from '../../api/object.js';
import { keyOf } from '../../api/object.js';
import type { Requests } from '../../api/pod-requests.js';
import { podRequests } from '../../api/pod-requests.js';
import type { Budgets, HarbingerConfig } from '../../config/schema.js';
import type { Gang, PodSet } from '../../gangs/shape.js';
import { AffinityWork } from '../../placement/affinity-work.js';
import type { RuntimeClassFacts } from '../../placement/capability.js';
import type { Candidates } from '../../placement/candidates.js';
import { candidates } from '../../placement/candidates.js';
import { prewarmDeadlineMs } from '../../preheat/deadline.js';
import type { PlannedPrewarm, PlannedTarget, Progress } from '../../preheat/planner.js';
import { plan } from '../../preheat/planner.js';
import type { Plan, World } from '../../preheat/planner.js';
import type { Puller, PullerTenant } from '../../preheat/puller.js';
import { pullerOf } from '../../preheat/puller.js';
import type { NodeFacts } from '../../placement/node-facts.js';
import type { NodeUsage } from '../../placement/usage.js';
import { canonical } from '../gangs/decide.js';
import type { Lifecycle } from '../prewarm/lifecycle.js';
import { inMode, lifecycle } from '../prewarm/lifecycle.js';
import { recordOf } from '../prewarm/record.js';
import type { CandidateSums, GangView } from '../prewarm/snapshot.js';
import { specProblem } from '../prewarm/spec-problem.js';
import { ownersOf, refusedTenants } from './tenants.js';

/** What a plan says about one ImagePrewarm. */
export interface PrewarmPlan {
  /** What of the object the plan was made from: a status written from an older plan would speak of other images. */
  signature: string;
  generation?: number | undefined;
  lifecycle: Lifecycle;
  candidates: CandidateSums;
  progress: Progress | undefined;
  deadlineMs: number;
  concurrency: number;
  /** Names of the nodes that would be warmed, in mode Observe; the first hundred. */
  would?: readonly string[] | undefined;
}

interface Entry {
  prewarm: ImagePrewarm;
  gang?: GangView | undefined;
  /** It has a gang, but what Kueue says about gangs is not known yet. */
  gangUnknown: boolean;
}

export interface PlanningInput {
  prewarms: readonly Entry[];
  nodes: readonly NodeFacts[];
  world: World;
  /** What runs on the nodes; absent: nodes are taken in the order of their names. */
  usage?: Pick<NodeUsage, 'roomFor'>;
  /** Nodes on which other Pods start or gangs run. */
  busy?: ReadonlySet<string>;
  runtimeClass?: (name: string) => RuntimeClassFacts | undefined;
  config: Pick<HarbingerConfig, 'mode' | 'budgets' | 'nodes' | 'pullers'>;
  now: number;
}

/** Objects of the cache are replaced and never changed, so what follows from one alone is worked out once. */
const SIGNATURES = new WeakMap<ImagePrewarm, string>();
const PULLERS = new WeakMap<ImagePrewarm, Map<string, (Puller | undefined)[]>>();
const KEYS = new WeakMap<PrewarmTarget, string>();
const REQUESTS = new WeakMap<object, Requests>();

/** Generation and recorded images: what the progress of a plan is about. */
export function signatureOf(prewarm: ImagePrewarm): string {
  const known = SIGNATURES.get(prewarm) ?? signature(prewarm);
  SIGNATURES.set(prewarm, known);
  return known;
}

function signature(prewarm: ImagePrewarm): string {
  const images = prewarm.spec.targets.map((t) =>
    t.images.map(({ reference }) => {
      const { resolved = '', pulledWith = '' } = recordOf(prewarm, t.name, reference) ?? {};
      return [resolved, pulledWith];
    }),
  );
  return canonical([prewarm.metadata.uid, prewarm.metadata.generation, images]);
}

/** What one plan has found, and spent, so far. */
interface Round {
  memo: Map<string, Candidates>;
  work: AffinityWork;
}

/** Puts all ImagePrewarms through the planner. A pure function: objects and time in, grants and progress out. */
export function planAll(input: PlanningInput): {
  grants: Plan['grants'];
  plans: Map<string, PrewarmPlan>;
  /** Of pullers of tenants, by hash. */
  owners: Map<string, OwnerReference[]>;
} {
  const round: Round = { memo: new Map(), work: new AffinityWork() };
  const views = input.prewarms.map((entry) => viewOf(entry, input, round));
  const refused = refusedTenants(views, input.config.pullers.workloadNamespaces, input.world.refused);
  const result = plan(
    views.filter((v) => v.planned.targets.length > 0).map((v) => v.planned),
    { ...input.world, refused },
    input.config.budgets,
  );
  // Of a gang that is not known yet nothing is told: a status written from that would stay.
  const known = views.filter((_view, i) => input.prewarms[i]?.gangUnknown === false);
  const plans = known.map(
    ({ planned, plan: view }) => [planned.key, { ...view, progress: result.progress.get(planned.key) }] as const,
  );
  return { grants: result.grants, plans: new Map(plans), owners: ownersOf(views) };
}

function viewOf(
  entry: Entry,
  input: PlanningInput,
  round: Round,
): { prewarm: ImagePrewarm; planned: PlannedPrewarm; plan: Omit<PrewarmPlan, 'progress'> } {
  const { prewarm, gang } = entry;
  const { budgets, mode } = input.config;
  const targets = prewarm.spec.targets.map((t) => targetOf(t, { prewarm, gang: gang?.gang, input, round }));
  const work = workOf(prewarm, targets, budgets);
  const life = lifeOf(entry, input, work.deadlineMs);
  const problem = specProblem(prewarm) ?? targets.find((t) => t.candidates.problem !== undefined)?.candidates.problem;
  const on = mode === 'On';
  return {
    prewarm,
    planned: {
      key: keyOf(prewarm),
      mayPull: on && life.mayPull && problem === undefined,
      keep: on && life.keep,
      rank: rankOf(entry),
      namespace: prewarm.metadata.namespace,
      occupies: gang !== undefined,
      busyNodes: prewarm.spec.pull?.busyNodes,
      rampUp: prewarm.spec.pull?.rampUp ?? 'SlowStart',
      maxConcurrentNodes: prewarm.spec.pull?.maxConcurrentNodes,
      targets,
    },
    plan: {
      signature: signatureOf(prewarm),
      generation: prewarm.metadata.generation,
      lifecycle: life,
      candidates: { ...(problem === undefined ? {} : { problem }), ...emptyOf(prewarm, targets), desired: work.nodes },
      deadlineMs: work.deadlineMs,
      concurrency: work.concurrency,
      would: mode === 'Observe' ? firstNodes(targets) : undefined,
    },
  };
}

/** Names of nodes in one line of the log. */
const MAX_WOULD = 100;

function firstNodes(targets: readonly PlannedTarget[]): string[] {
  const names = targets.flatMap(({ candidates: { nodes, needed } }) => nodes.slice(0, needed).map((n) => n.name));
  return [...new Set(names)].slice(0, MAX_WOULD);
}

/** While it is not known what became of a gang, what is there stays and nothing new begins. */
const UNKNOWN: Lifecycle = { mayPull: false, keep: true };

function lifeOf({ prewarm, gang, gangUnknown }: Entry, { config, now }: PlanningInput, deadlineMs: number): Lifecycle {
  const { gangsAheadPerQueue, retainAfterAdmissionMinutes } = config.budgets;
  const retainAfterAdmissionMs = retainAfterAdmissionMinutes * 60_000;
  const life = gangUnknown ? UNKNOWN : lifecycle({ prewarm, gang, now, gangsAheadPerQueue, retainAfterAdmissionMs, deadlineMs });
  return inMode(life, config.mode);
}

function rankOf({ prewarm, gang }: Entry): PlannedPrewarm['rank'] {
  if (gang === undefined) return { reserved: false, priority: 0, queuedAt: time(prewarm.metadata.creationTimestamp) ?? 0 };
  const { state, priority, queuedAt } = gang.gang;
  const behind = state.passedOver === true ? BEHIND_ALL : 0;
  return { reserved: state.reservedAt !== undefined, priority: priority - behind, queuedAt };
}

/** Priorities are of 32 bits. */
const BEHIND_ALL = 2 ** 32;

/** How much there is to do, and by when it should be done once it began. */
function workOf(
  prewarm: ImagePrewarm,
  targets: readonly PlannedTarget[],
  budgets: Budgets,
): { nodes: number; concurrency: number; deadlineMs: number } {
  const nodes = targets.reduce((sum, t) => sum + t.candidates.needed, 0);
  const bytesPerNode = Math.max(0, ...targets.map((t) => t.pullers.reduce((sum, p) => sum + p.bytes, 0)));
  const most = Math.min(
    budgets.maxPullingNodes,
    budgets.maxPullingNodesPerRegistry,
    budgets.maxPullingNodesPerNamespace ?? Number.POSITIVE_INFINITY,
    prewarm.spec.pull?.maxConcurrentNodes ?? Number.POSITIVE_INFINITY,
  );
  const concurrency = Math.max(1, most);
  const first = prewarm.spec.pull?.rampUp === 'Immediate' ? undefined : 1;
  return { nodes, concurrency, deadlineMs: prewarmDeadlineMs({ bytesPerNode, nodes, concurrency, first }, budgets) };
}

function targetOf(
  target: PrewarmTarget,
  context: { prewarm: ImagePrewarm; gang: Gang | undefined; input: PlanningInput; round: Round },
): PlannedTarget {
  const { prewarm, gang, input, round } = context;
  const pullers = pullersOf(prewarm, target);
  const known = pullers.filter((p) => p !== undefined);
  const podSet = gang?.podSets.find((p) => p.name === target.name);
  const { allow, exclude } = input.config.nodes;
  const { runtimeClassName } = target;
  const runtimeClass = runtimeClassName === undefined ? undefined : input.runtimeClass?.(runtimeClassName);
  const requests = podSet === undefined ? undefined : requestsOf(podSet, runtimeClass);
  // Gangs of one queue ask for the same nodes: with hundreds of them this is most of the work.
  const own = KEYS.get(target) ?? short(canonical([target.nodes, target.tolerations]));
  KEYS.set(target, own);
  const key = own + short(canonical([runtimeClass, requests, prewarm.spec.spareNodes]));
  const { affinity } = target.nodes;
  const anyNode = !round.memo.has(key) && !round.work.spend(prewarm.metadata.namespace ?? '', affinity, input.nodes.length);
  const memoKey = anyNode ? `${key}, any node` : key;
  const found =
    round.memo.get(memoKey) ??
    candidates(target, input.nodes, {
      ...{ allow, exclude, requests, spare: prewarm.spec.spareNodes },
      ...{ runtimeClass, usage: input.usage, busy: input.busy, anyNode },
    });
  round.memo.set(memoKey, found);
  return {
    name: target.name,
    pullers: [...new Map(known.map((p) => [p.hash, p])).values()],
    complete: known.length === pullers.length,
    candidates: found,
  };
}

/** The puller of each image of a target, in order; undefined where it is not resolved. */
export function pullersOf(prewarm: ImagePrewarm, target: PrewarmTarget): (Puller | undefined)[] {
  const byTarget = PULLERS.get(prewarm) ?? new Map<string, (Puller | undefined)[]>();
  PULLERS.set(prewarm, byTarget);
  const known = byTarget.get(target.name);
  if (known !== undefined) return known;
  const pullers = target.images.map(({ reference }) => {
    const found = recordOf(prewarm, target.name, reference);
    if (found?.resolved === undefined) return undefined;
    return pullerOf(found.resolved, {
      runtimeClassName: target.runtimeClassName,
      bytes: found.sizeBytes,
      tenant: found.pulledWith === 'Workload' ? tenantOf(prewarm, target) : undefined,
    });
  });
  byTarget.set(target.name, pullers);
  return pullers;
}

/** A key of a map that is no longer than need be: specs of tenants may be a megabyte, and plans are many. */
function short(text: string): string {
  return text.length > 1_000 ? createHash('sha256').update(text).digest('base64url') : text;
}

/** Templates of Pods that exist have the overhead of their RuntimeClass already. */
function requestsOf({ template }: PodSet, runtimeClass: RuntimeClassFacts | undefined): Requests {
  const known = runtimeClass === undefined ? REQUESTS.get(template) : undefined;
  if (known !== undefined) return known;
  const spec = at(template, 'spec');
  const requests = podRequests({ ...spec, overhead: record(spec['overhead']) ?? runtimeClass?.overhead });
  if (runtimeClass === undefined) REQUESTS.set(template, requests);
  return requests;
}

/** Whose secrets pull the images of a target that only its own Pods may read. */
export function tenantOf({ metadata }: ImagePrewarm, { imagePullSecrets = [], serviceAccountName }: PrewarmTarget): PullerTenant {
  return { namespace: metadata.namespace ?? '', secrets: imagePullSecrets.map((s) => s.name), serviceAccountName };
}

/** Targets that want nodes and have none, and what keeps nodes out. */
function emptyOf(prewarm: ImagePrewarm, targets: readonly PlannedTarget[]): Pick<CandidateSums, 'empty' | 'reasons'> {
  const empty = targets.filter((t, i) => t.candidates.needed === 0 && prewarm.spec.targets[i]?.nodes.count !== 0);
  return { empty: empty.map((t) => t.name), reasons: sumReasons(empty.length > 0 ? empty : targets) };
}

function sumReasons(targets: readonly PlannedTarget[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { candidates: found } of targets)
    for (const [reason, n] of Object.entries(found.reasons)) sum[reason] = (sum[reason] ?? 0) + n;
  return sum;
}
