import type { FailureReason } from '../../../src/api/reasons.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { ImagePrewarmSpec, ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { GangCredentialsPort } from '../../../src/controller/gangs/credentials.js';
import type { DecideContext } from '../../../src/controller/prewarm/decide.js';
import type { GangView, Lookup, PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import type { GangState } from '../../../src/gangs/shape.js';
import type { Progress } from '../../../src/preheat/planner.js';

export const T0 = Date.parse('2026-01-01T00:00:00Z');
/** Whole seconds, as the API server keeps times. */
export const iso = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');
export const digest = (c: string): string => `sha256:${c.repeat(64)}`;
export const resolvedOf = (c: string): string => `reg.example.com/train@${digest(c)}`;
export const SOURCE = 'reg.example.com/train:v1';

export const lookup = (c = 'a', at = T0): Lookup => ({
  ok: true,
  digest: digest(c),
  resolved: resolvedOf(c),
  outcome: 'pinned',
  sizeBytes: 1e9,
  at,
});
export const failedLookup = (reason: 'ImageNotFound' | 'AuthDenied' | 'RegistryError', at = T0): Lookup => ({
  ok: false,
  reason,
  outcome: 'registry-error',
  message: 'the registry says no',
  at,
});
export const recorded = (c = 'a'): NonNullable<ImagePrewarmStatus['targets']> => [
  { name: 'main', images: [{ source: SOURCE, resolved: resolvedOf(c), digest: digest(c), sizeBytes: 1e9, outcome: 'pinned' }] },
];

export function prewarm(status: ImagePrewarmStatus = {}, spec: Partial<ImagePrewarmSpec> = {}): ImagePrewarm {
  return {
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name: 'p', namespace: 'team', generation: 2 },
    spec: {
      targets: [{ name: 'main', images: [{ reference: SOURCE }], nodes: { selector: {}, count: 3 } }],
      pin: 'AtRelease',
      retain: 'UntilGangStarts',
      spareNodes: 0,
      suspend: false,
      ...spec,
    },
    status,
  };
}
export function gang(change: Partial<GangView> = {}, state: Partial<GangState> = {}): GangView {
  const { gang: g } = projectWorkload({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: { name: 'w', namespace: 'team' },
    spec: { queueName: 'gpu' },
  });
  return {
    gang: { ...g, state: { ...g.state, ...state } },
    optIn: { optedIn: true, problems: [] },
    checkReady: false,
    checked: true,
    ...change,
  };
}
/** Gangs that have no pull secrets, or may not use them. */
export const noSecrets: GangCredentialsPort = {
  of: () => Promise.resolve({ chain: [], problem: 'no secrets here', doubt: () => undefined }),
  mayPullUnread: () => true,
};
export const progress = (change: Partial<Progress> = {}): Progress => ({
  desired: 3,
  warm: 3,
  pulling: 0,
  pending: 0,
  failed: 0,
  failures: [],
  runningSince: [],
  seenMs: [],
  ...change,
});
export const snapshot = (change: Partial<PrewarmSnapshot> = {}): PrewarmSnapshot => ({
  prewarm: prewarm({ targets: recorded() }),
  progress: progress(),
  candidates: { reasons: {}, desired: 3, empty: [] },
  lookups: new Map([[SOURCE, lookup()]]),
  unusable: new Map(),
  deadlineMs: 600_000,
  concurrency: 10,
  ...change,
});
export const context = (change: Partial<DecideContext> = {}): DecideContext => ({
  now: T0,
  lifecycle: { mayPull: true, keep: true },
  rates: { assumedPullMiBPerSecond: 50, minDeadlineSeconds: 600 },
  ...change,
});
export const condition = (status: ImagePrewarmStatus, type: string) => status.conditions?.find((c) => c.type === type);
export const failure = (reason: FailureReason, node = 'n1') => ({
  node,
  image: 'i',
  reason,
  message: `${node} says ${reason}`,
});
export const GANG_REF = { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'job-uid' };
export const conditionOf = (type: string, status: boolean, reason: string) => ({
  type,
  status: status ? ('True' as const) : ('False' as const),
  reason,
  message: 'm',
  lastTransitionTime: iso(T0),
});
