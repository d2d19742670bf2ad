import { describe, expect, test } from '@jest/globals';
import { at, number } from '../../../src/api/json.js';
import { checksOf, conditionOf, holds, reservedAt } from '../../chaos/invariants/read.js';
import type { Raw } from '../../chaos/invariants/index.js';
import { Kueue } from '../../chaos/sim/models/kueue.js';
import { checks, queuedSince, requeueAt, resetChecks, withEviction } from '../../chaos/sim/models/requeue.js';
import type { World } from '../../chaos/sim/models/world.js';
import { CHECK, CLUSTER_QUEUE, EXTRA, LOCAL_QUEUE, NS, RESOURCE, nameOf, writeStatus } from '../../chaos/sim/models/world.js';
import { Random } from '../../chaos/sim/random.js';
import { Store, seconds } from '../../chaos/sim/store/store.js';
import { Timeline } from '../../chaos/sim/timeline.js';

const START = Date.parse('2026-01-01T00:00:00Z');

/** A queue for one gang at a time, with our check. */
function ground() {
  const timeline = new Timeline(START);
  const store = new Store({ now: () => timeline.now, random: () => 0.5 });
  const world = { timeline, store, random: new Random(1) } as World;
  const create = (resource: (typeof RESOURCE)['jobs'], kind: string, name: string, more: object): Raw =>
    store.create(resource, { apiVersion: '', kind, metadata: { name }, ...more });
  const strategy = { admissionChecksStrategy: { admissionChecks: [{ name: CHECK }] } };
  create(RESOURCE.clusterQueues, 'ClusterQueue', CLUSTER_QUEUE, { spec: strategy });
  const check = create(RESOURCE.admissionChecks, 'AdmissionCheck', CHECK, { spec: {} });
  writeStatus(world, RESOURCE.admissionChecks, check, { conditions: [{ type: 'Active', status: 'True' }] });
  const kueue = new Kueue(world, { slots: 2, waitForPodsReady: false });
  const gang = (name: string): void => {
    const labels = { [EXTRA.queue]: LOCAL_QUEUE };
    const spec = { parallelism: 2, suspend: true, template: { spec: { containers: [] } } };
    store.create(RESOURCE.jobs, { apiVersion: 'batch/v1', kind: 'Job', metadata: { name, namespace: NS, labels }, spec });
  };
  const of = (name: string): Raw => {
    const found = kueue.workloads().find((w) => w.metadata.ownerReferences?.[0]?.name === name);
    if (found === undefined) throw new Error(`no Workload of ${name}`);
    return found;
  };
  /** The check answers; `requeueAfterSeconds` goes with Retry. */
  const answer = (name: string, state: string, requeueAfterSeconds?: number): void => {
    const lastTransitionTime = seconds(timeline.now);
    const said = {
      state,
      message: 'ours',
      lastTransitionTime,
      ...(requeueAfterSeconds === undefined ? {} : { requeueAfterSeconds }),
    };
    writeStatus(world, RESOURCE.workloads, of(name), { admissionChecks: checks(of(name)).map((c) => ({ ...c, ...said })) });
  };
  /** What its versions told since a time, one after the other. */
  const history = (name: string, since: number): string[] => {
    const uid = of(name).metadata.uid;
    const told = store.log.filter((c) => c.object.metadata.uid === uid && c.at >= since).map((c) => wordsOf(c.object));
    return told.filter((words, i) => words !== told[i - 1]);
  };
  return { timeline, store, kueue, gang, of, answer, history, wait: (ms: number) => timeline.run(timeline.now + ms) };
}

function wordsOf(workload: Raw): string {
  const [{ state = '' } = {}] = checksOf(workload);
  const count = number(checks(workload)[0]?.['retryCount']);
  const [evicted, requeued] = [conditionOf(workload, 'Evicted'), conditionOf(workload, 'Requeued')];
  return [
    reservedAt(workload) === undefined ? 'queued' : 'reserved',
    count === undefined ? state : `${state} after ${count}`,
    ...(requeueAt(workload) === undefined ? [] : ['waits']),
    ...(evicted?.status === 'True' ? [`Evicted ${evicted.reason}`] : []),
    ...(requeued === undefined ? [] : [`Requeued ${requeued.status} ${requeued.reason}`]),
  ].join(', ');
}

describe('a gang whose check says Retry', () => {
  test.each([
    ['at once', 0],
    ['at once where nobody names a time', undefined],
  ])('gives its quota back %s, and may have it again at once', async (_title, after) => {
    const { gang, answer, history, wait, timeline } = ground();
    gang('a');
    await wait(2_000);
    const since = timeline.now;
    answer('a', 'Retry', after);
    await wait(5_000);
    expect(history('a', since)).toEqual([
      'reserved, Retry',
      'reserved, Pending after 1, Evicted AdmissionCheck',
      'queued, Pending after 1, Evicted AdmissionCheck, Requeued False AdmissionCheck',
      'queued, Pending after 1, Evicted AdmissionCheck, Requeued True BackoffFinished',
      'reserved, Pending after 1, Requeued True BackoffFinished',
    ]);
  });

  test('keeps its quota until its time is over', async () => {
    const { gang, of, answer, history, wait, timeline } = ground();
    gang('a');
    await wait(2_000);
    const since = timeline.now;
    answer('a', 'Retry', 30);
    await wait(29_000);
    expect(history('a', since)).toEqual(['reserved, Retry', 'reserved, Retry, waits']);
    expect(requeueAt(of('a'))).toBe(since + 30_000);
    await wait(5_000);
    expect(history('a', since).slice(2)).toEqual([
      'reserved, Pending after 1, waits, Evicted AdmissionCheck',
      'queued, Pending after 1, waits, Evicted AdmissionCheck, Requeued False AdmissionCheck',
      'queued, Pending after 1, Evicted AdmissionCheck, Requeued True BackoffFinished',
      'reserved, Pending after 1, Requeued True BackoffFinished',
    ]);
    expect(checks(of('a'))[0]).toMatchObject({
      message: 'Reset to Pending after eviction. Previously: Retry',
      requeueAfterSeconds: 30,
    });
  });

  test('goes to the back of the queue, and is counted', async () => {
    const { gang, of, answer, wait } = ground();
    gang('a');
    await wait(2_000);
    gang('b');
    await wait(2_000);
    answer('a', 'Retry', 0);
    await wait(5_000);
    expect([reservedAt(of('a')), reservedAt(of('b'))]).toEqual([undefined, expect.any(Number)]);
    expect(queuedSince(of('a'))).toBe(conditionOf(of('a'), 'Evicted')?.since);
    answer('b', 'Retry', 0);
    await wait(5_000);
    answer('a', 'Retry', 0);
    await wait(5_000);
    expect(at(of('a'), 'status')['schedulingStats']).toEqual({
      evictions: [{ reason: 'AdmissionCheck', underlyingCause: '', count: 2 }],
    });
  });

  test('is stopped where it runs', async () => {
    const { gang, of, answer, history, wait, timeline } = ground();
    gang('a');
    await wait(2_000);
    answer('a', 'Ready');
    await wait(2_000);
    expect(holds(of('a'), 'Admitted')).toBe(true);
    const since = timeline.now;
    answer('a', 'Retry');
    await wait(2_000);
    expect(history('a', since)).toContain('reserved, Pending after 1, Evicted AdmissionCheck');
    expect(holds(of('a'), 'Admitted')).toBe(false);
  });

  test('that others evict meanwhile is not given quota before its time', async () => {
    const { gang, kueue, of, answer, wait, timeline } = ground();
    gang('a');
    await wait(2_000);
    const since = timeline.now;
    answer('a', 'Retry', 30);
    await wait(5_000);
    expect(kueue.evict(of('a'), 'Preempted')).toBe(true);
    await wait(20_000);
    expect(wordsOf(of('a'))).toBe('queued, Pending after 1, waits, Evicted Preempted, Requeued True Preempted');
    await wait(10_000);
    expect(reservedAt(of('a'))).toBeGreaterThanOrEqual(since + 30_000);
  });

  test('waits for nothing once it is not active', async () => {
    const { gang, store, of, answer, wait } = ground();
    gang('a');
    await wait(2_000);
    answer('a', 'Retry', 600);
    await wait(2_000);
    const active = (value: boolean): Raw =>
      store.patch(RESOURCE.workloads, nameOf(of('a')), { type: 'merge', body: { spec: { active: value } } });
    active(false);
    await wait(3_000);
    expect(wordsOf(of('a'))).toBe('queued, Pending after 1, Evicted Deactivated, Requeued False Deactivated');
    active(true);
    await wait(3_000);
    expect(wordsOf(of('a'))).toBe('reserved, Pending after 1, Requeued True Reactivated');
  });
});

describe('checks after an eviction', () => {
  const of = (status: object): Raw => ({ apiVersion: '', kind: 'Workload', metadata: { name: 'w' }, status });
  test('forget how often they said Retry once they said Ready', () =>
    expect(
      resetChecks(of({ admissionChecks: [{ name: 'images', state: 'Ready', message: 'warm', retryCount: 2 }] }), 'now'),
    ).toEqual([
      {
        name: 'images',
        state: 'Pending',
        message: 'Reset to Pending after eviction. Previously: Ready',
        lastTransitionTime: 'now',
      },
    ]));
  test('stay as they are while they say nothing', () => {
    const check = { name: 'images', state: 'Pending', message: 'held', retryCount: 2 };
    expect(resetChecks(of({ admissionChecks: [check] }), 'now')).toEqual([check]);
  });
  test('are counted by cause', () => {
    const before = { evictions: [{ reason: 'AdmissionCheck', underlyingCause: '', count: 1 }] };
    expect(withEviction(of({ schedulingStats: before }), 'Preempted')).toEqual({
      evictions: [...before.evictions, { reason: 'Preempted', underlyingCause: '', count: 1 }],
    });
  });
});
