import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { Action } from '../../../src/controller/actions.js';
import type { WorkloadView } from '../../../src/controller/gangs/sources/kueue.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import { Guard } from '../../../src/controller/gangs/guard.js';
import type { Warmth } from '../../../src/controller/holds/decide.js';
import type { GatedJobsOptions } from '../../../src/controller/holds/gated-jobs.js';
import { GatedJobsReconciler } from '../../../src/controller/holds/gated-jobs.js';
import type { KueueCheckOptions } from '../../../src/controller/holds/kueue-check.js';
import { KueueCheckReconciler } from '../../../src/controller/holds/kueue-check.js';
import { errorOfAnswer } from '../../../src/kube/errors.js';
import type { Resource } from '../../../src/kube/resources.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { iso, T0 } from './fixtures.js';

const MINUTE = 60_000;
const cold: Warmth = { ready: false, current: true, desired: 3, warm: 2, message: '', reason: 'PullingImages' };
const warm: Warmth = { ...cold, ready: true, warm: 3, reason: 'AllNodesWarm' };

interface Situation {
  annotations?: Record<string, string>;
  /** Epoch ms of the reservation; absent: none. */
  reservedAt?: number;
  warmth?: Warmth;
  /** Of our check; Pending when absent. */
  state?: 'Ready' | 'Pending';
  holdMs?: number;
  owner?: { apiVersion: string; kind: string };
  /** What reading the job comes to. */
  read?: () => Promise<unknown>;
}

const JOB = { apiVersion: 'batch/v1', kind: 'Job' };

const workload = ({ annotations, reservedAt, owner = JOB, state = 'Pending' }: Situation): WorkloadView =>
  projectWorkload({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: {
      name: 'w',
      namespace: 'team',
      resourceVersion: '7',
      creationTimestamp: iso(T0),
      ...(annotations === undefined ? {} : { annotations }),
      ownerReferences: [{ ...owner, name: 'train', uid: 'u', controller: true }],
    },
    spec: { queueName: 'gpu', podSets: [{ name: 'main', count: 1, template: { spec: { containers: [{ image: 'i:1' }] } } }] },
    status: {
      conditions:
        reservedAt === undefined ? [] : [{ type: 'QuotaReserved', status: 'True', lastTransitionTime: iso(reservedAt) }],
      admissionChecks: [{ name: 'images', state, message: '' }],
    },
  });

/** Reconcilers of holds among doubles that know one Workload and our check on it. */
function ground(situation: Situation) {
  const { holdMs, read } = situation;
  let now = situation;
  const clock = new FakeClock(T0 + 7 * MINUTE);
  const { log, lines } = keepLog();
  const seen = { actions: [] as Action[], ended: [] as string[], events: [] as { reason: string; note: string }[] };
  const asked: Resource[] = [];
  const options = {
    caches: {
      workloads: { get: () => workload(now), byIndex: () => [workload(now)] },
      ownChecks: () => [{ name: 'images', controllerName: 'x', conditions: [] }],
      checkConfigs: { get: () => undefined },
    },
    views: {
      optInOf: () => ({ optedIn: true, problems: [], ...(holdMs === undefined ? {} : { holdMs }) }),
      isJobGone: () => false,
    },
    client: {
      get: (kind: Resource) => {
        asked.push(kind);
        return read?.() ?? Promise.reject(new Error('not expected to be read'));
      },
    },
    actuator: { perform: (action: Action) => Promise.resolve(void seen.actions.push(action)) },
    guard: new Guard(() => clock.now()),
    warmth: { of: () => now.warmth ?? cold },
    counts: { ended: (hold: string, reason: string) => seen.ended.push(`${hold} ${reason}`) },
    events: { event: (event: { reason: string; note: string }) => seen.events.push(event) },
    config: () => ({ ...defaultConfig(), holds: { gatedJobs: 'On', gatedSeconds: 600 } }),
    clock,
    log,
  };
  const checks = new KueueCheckReconciler(options as unknown as KueueCheckOptions);
  return {
    ...seen,
    asked,
    lines,
    clock,
    become: (next: Situation) => void (now = next),
    check: () => checks.reconcile('team/w'),
    gate: () => new GatedJobsReconciler(options as unknown as GatedJobsOptions).reconcile('team/w'),
  };
}
const RESERVED = T0 + 6 * MINUTE;
const stamp = (since: number, deadline: number) => ({
  'harbinger.dev/hold-deadline': iso(deadline),
  'harbinger.dev/hold-since': iso(since),
});

describe('the check of a gang whose warmth comes and goes while it waits', () => {
  const written = (actions: readonly Action[]): unknown[] =>
    actions.flatMap((a) => (a.type === 'write-check' ? [a.ops.map((op) => ('value' in op ? op.value : undefined))] : []));

  test('says from when on it may be Ready again, and is Ready then', async () => {
    const { check, actions, become, clock } = ground({ state: 'Ready' });
    await check();
    expect(written(actions)).toEqual([['Pending', expect.any(String), iso(clock.now())]]);
    const until = clock.now() + 10_000;
    become({ warmth: warm });
    await clock.advance(6_000);
    expect(await check()).toEqual({ after: 4_000 });
    expect(written(actions)[1]).toEqual([
      'Pending',
      `images warm on 3/3 nodes, but warmth was lost a moment ago: this counts from ${iso(until)} on if it lasts`,
    ]);
    await clock.advance(4_000);
    await check();
    expect(written(actions)[2]).toEqual(['Ready', 'images warm on 3/3 nodes', iso(until)]);
  });

  test('is Ready at once where somebody only took the gang out of its queue for a while', async () => {
    const { check, actions, become } = ground({ state: 'Ready', warmth: { ...cold, reason: 'Suspended' } });
    await check();
    become({ warmth: warm });
    await check();
    expect(written(actions).map((w) => (w as string[])[0])).toEqual(['Pending', 'Ready']);
  });
});

describe('the check of a gang with quota', () => {
  test('is stamped with the end of its hold and with the reservation that it is for, before anything else', async () => {
    const { check, actions } = ground({ reservedAt: RESERVED, holdMs: 10 * MINUTE });
    await check();
    const at = '/metadata/annotations';
    expect(actions).toEqual([
      expect.objectContaining({
        type: 'stamp-deadline',
        ops: [
          { op: 'add', path: at, value: {} },
          { op: 'add', path: `${at}/harbinger.dev~1hold-deadline`, value: iso(RESERVED + 10 * MINUTE) },
          { op: 'add', path: `${at}/harbinger.dev~1hold-since`, value: iso(RESERVED) },
        ],
      }),
    ]);
  });
  test('is stamped anew after an eviction, though the old stamp has time left', async () => {
    const { check, actions } = ground({
      ...{ reservedAt: RESERVED, holdMs: 10 * MINUTE },
      annotations: stamp(T0, T0 + 10 * MINUTE),
    });
    await check();
    expect(actions.map((a) => a.type)).toEqual(['stamp-deadline']);
  });

  const held = stamp(RESERVED, RESERVED + 10 * MINUTE);
  const rows: [string, Situation, string[]][] = [
    [
      'that was held and is warm',
      { reservedAt: RESERVED, annotations: held, holdMs: 10 * MINUTE, warmth: warm },
      ['Check WarmVerified'],
    ],
    ['that was held and is let go by hand', { reservedAt: RESERVED, annotations: held, holdMs: 0 }, ['Check QuotaReservedCold']],
    ['that asks for no hold', { reservedAt: RESERVED }, []],
    ['that is warm when it gets quota', { reservedAt: RESERVED, holdMs: 10 * MINUTE, warmth: warm }, []],
    [
      'that was held before its eviction only',
      { reservedAt: RESERVED, annotations: stamp(T0, T0 + 10 * MINUTE), holdMs: 10 * MINUTE, warmth: warm },
      [],
    ],
    ['without quota', { warmth: warm }, []],
  ];
  test.each(rows)('counts as a hold that ended only where there was one: a gang %s', async (_title, situation, ended) => {
    const seen = ground(situation);
    await seen.check();
    expect(seen.actions.map((a) => a.type)).toEqual(['write-check']);
    expect(seen.ended).toEqual(ended);
  });
});

describe('a gated job', () => {
  const annotations = { 'kueue.x-k8s.io/admission-gated-by': 'harbinger.dev/image-prewarm' };
  const jobSet = { apiVersion: 'jobset.x-k8s.io/v1', kind: 'JobSet' };
  const job = { ...jobSet, metadata: { name: 'train', namespace: 'team', uid: 'u', creationTimestamp: iso(T0), annotations } };
  const answer = (body: string) => () =>
    Promise.reject(errorOfAnswer({ what: 'get jobsets.jobset.x-k8s.io team/train', status: 404, body }));

  test('is read and let go in the version that its Workload names', async () => {
    const seen = ground({ annotations, owner: jobSet, warmth: warm, read: () => Promise.resolve(job) });
    await seen.gate();
    const kind = { group: 'jobset.x-k8s.io', version: 'v1', plural: 'jobsets' };
    expect(seen.asked).toEqual([expect.objectContaining(kind)]);
    expect(seen.actions).toEqual([expect.objectContaining({ type: 'remove-gate', resource: expect.objectContaining(kind) })]);
    expect(seen.ended).toEqual(['Gate WarmVerified']);
  });
  test('of a version that is not served stays, and says why, every half minute', async () => {
    const seen = ground({ annotations, owner: jobSet, warmth: warm, read: answer('404 page not found\n') });
    expect(await seen.gate()).toEqual({ after: 30_000 });
    expect(seen.events).toEqual([
      expect.objectContaining({
        reason: 'GateStays',
        note: expect.stringContaining('the API server does not serve jobsets of jobset.x-k8s.io/v1'),
      }),
    ]);
  });
  test('negative twin: of one that is gone nobody is told', async () => {
    const gone = JSON.stringify({ kind: 'Status', code: 404, reason: 'NotFound', message: 'jobsets "train" not found' });
    const seen = ground({ annotations, owner: jobSet, warmth: warm, read: answer(gone) });
    expect(await seen.gate()).toEqual({ after: 30_000 });
    expect(seen.events).toEqual([]);
  });
});
