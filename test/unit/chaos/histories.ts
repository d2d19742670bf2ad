import type { Change, ImageTruth, Raw } from '../../chaos/invariants/index.js';

// Histories that never were: what the checkers of the chaos tests have to see in them.

export const GANG = 'job-uid';
export const digest = (n: number): string => `sha256:${String(n).repeat(64)}`;
const raw = (object: object): Raw => object as Raw;

export const added = (at: number, object: Raw): Change => ({ at, type: 'ADDED', object });
export const modified = (at: number, object: Raw): Change => ({ at, type: 'MODIFIED', object });
export const deleted = (at: number, object: Raw): Change => ({ at, type: 'DELETED', object });

export interface PrewarmDraft {
  uid?: string;
  /** What is recorded; undefined: nothing yet. */
  digest?: number | undefined;
  /** Conditions that are True, by type, with their reasons. */
  is?: Record<string, string>;
  /** Nodes of 2 that are warm. */
  warm?: number;
  pin?: string;
  gang?: string;
  /** Whose tag v1 the gang runs. */
  repository?: string;
}

export function prewarm({ uid = 'p1', digest: n, is = {}, warm = 0, pin, gang = GANG, repository = 'r/a' }: PrewarmDraft): Raw {
  const source = `${repository}:v1`;
  const image = n === undefined ? {} : { resolved: `${repository}@${digest(n)}`, digest: digest(n) };
  return raw({
    kind: 'ImagePrewarm',
    metadata: { namespace: 'team', name: 'p', uid },
    spec: {
      gangRef: { uid: gang },
      targets: [{ name: 'main', images: [{ reference: source }], nodes: { count: 2 } }],
      ...(pin === undefined ? {} : { pin }),
    },
    status: {
      nodes: { desired: 2, warm },
      conditions: Object.entries(is).map(([type, reason]) => ({ type, status: 'True', reason })),
      targets: [{ name: 'main', images: [{ source, ...image }] }],
    },
  });
}

const ownedByJob = [{ kind: 'Job', name: 'j', uid: GANG, controller: true }];

/** A member of the gang; without a digest it runs what its template says. */
export function member(name: string, n?: number, repository = 'r/a'): Raw {
  const image = n === undefined ? `${repository}:v1` : `${repository}@${digest(n)}`;
  return raw({
    kind: 'Pod',
    metadata: { namespace: 'team', name, uid: name, ownerReferences: ownedByJob },
    spec: { containers: [{ image }] },
  });
}

export const job = (annotations: Record<string, string>): Raw =>
  raw({ kind: 'Job', metadata: { namespace: 'team', name: 'j', uid: GANG, annotations } });

export const node = (name: string, ready: boolean, uid = `${name}-1`): Raw =>
  raw({ kind: 'Node', metadata: { name, uid }, status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown' }] } });

/** A puller Pod, past its startup probe or not. */
export function puller(on: string, n: number, { started = true, uid = `puller-${on}` } = {}): Raw {
  return raw({
    kind: 'Pod',
    metadata: { namespace: 'system', name: uid, uid, labels: { 'harbinger.dev/puller': 'hash' } },
    spec: {
      nodeName: on,
      containers: [{ name: 'hold', image: 'r/puller:1' }],
      volumes: [{ image: { reference: `r/a@${digest(n)}` } }],
    },
    status: { containerStatuses: [{ name: 'hold', started, state: started ? { running: {} } : { waiting: {} } }] },
  });
}

export const image = (at: number, on: string, n: number, there = true): ImageTruth => ({
  at,
  node: on,
  digest: digest(n),
  there,
});

export const iso = (ms: number): string => new Date(ms).toISOString();

export interface WorkloadDraft {
  state: 'Pending' | 'Ready' | 'Retry';
  message?: string;
  /** Epoch ms. */
  stamp?: number;
  /** The reservation that the stamp says it is for. */
  stampedFor?: number;
  reservedAt?: number;
  /** Conditions that are True. */
  is?: string[];
  /** Why it is Evicted, where it is. */
  evictedBy?: string;
}

export function workload({ state, message = '', stamp, stampedFor, reservedAt, is = [], evictedBy }: WorkloadDraft): Raw {
  const reserved =
    reservedAt === undefined ? [] : [{ type: 'QuotaReserved', status: 'True', lastTransitionTime: iso(reservedAt) }];
  const evicted = evictedBy === undefined ? [] : [{ type: 'Evicted', status: 'True', reason: evictedBy }];
  return raw({
    kind: 'Workload',
    metadata: {
      namespace: 'team',
      name: 'w',
      uid: 'w1',
      ownerReferences: ownedByJob,
      annotations: {
        ...(stamp === undefined ? {} : { 'harbinger.dev/hold-deadline': iso(stamp) }),
        ...(stampedFor === undefined ? {} : { 'harbinger.dev/hold-since': iso(stampedFor) }),
      },
    },
    spec: { active: true },
    status: {
      conditions: [...reserved, ...is.map((type) => ({ type, status: 'True' })), ...evicted],
      admissionChecks: [{ name: 'images', state, message }],
    },
  });
}
