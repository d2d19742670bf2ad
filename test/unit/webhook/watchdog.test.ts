import { describe, expect, test } from '@jest/globals';
import type { Json } from '../../../src/api/json.js';
import type { Page, PageOptions, WatchEvent, WatchOptions } from '../../../src/kube/client.js';
import { COPY_MS } from '../../../src/gangs/gates.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { RawObject } from '../../../src/kube/reflector.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { GateWatch } from '../../../src/webhook/watchdog-gates.js';
import { HoldWatch, releasePatch } from '../../../src/webhook/watchdog-holds.js';
import type { WatchdogOptions } from '../../../src/webhook/watchdog-watch.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';

const NOW = Date.parse('2030-01-01T00:00:00.500Z');
const view = {
  reservedAt: 1,
  admitted: false,
  evicted: false,
  finished: false,
  active: true,
  checks: [
    { name: 'theirs', state: 'Pending', message: '' },
    { name: 'ours', state: 'Pending', message: '' },
    { name: 'ours-ready', state: 'Ready', message: '' },
  ],
};
const names = new Set(['ours', 'ours-ready']);

describe('releasePatch', () => {
  test('sets our pending checks Ready, on the very version that was judged, and touches no other', () => {
    expect(releasePatch({ view, resourceVersion: '7' }, names, 'DeadlineExceeded', NOW)).toEqual([
      { op: 'test', path: '/metadata/resourceVersion', value: '7' },
      { op: 'replace', path: '/status/admissionChecks/1/state', value: 'Ready' },
      { op: 'add', path: '/status/admissionChecks/1/message', value: expect.stringMatching(/^DeadlineExceeded: /) },
      { op: 'add', path: '/status/admissionChecks/1/lastTransitionTime', value: '2030-01-01T00:00:00Z' },
    ]);
  });
});

const T0 = Date.parse('2026-01-01T00:00:00Z');
const WORKLOAD: RawObject & Json = {
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    name: 'w',
    namespace: 'team',
    uid: 'w-uid',
    resourceVersion: '7',
    creationTimestamp: '2026-01-01T00:00:00Z',
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'u', controller: true }],
  },
};
const HELD: RawObject & Json = {
  ...WORKLOAD,
  metadata: { ...WORKLOAD.metadata, annotations: { 'harbinger.dev/hold-deadline': '2026-01-01T00:01:00Z' } },
  status: {
    conditions: [{ type: 'QuotaReserved', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }],
    admissionChecks: [{ name: 'images', state: 'Pending', message: '' }],
  },
};
const GATES = { 'kueue.x-k8s.io/admission-gated-by': 'harbinger.dev/image-prewarm' };
const GATED: RawObject & Json = { ...WORKLOAD, metadata: { ...WORKLOAD.metadata, annotations: GATES } };
const UNOWNED: RawObject & Json = { ...GATED, metadata: { ...GATED.metadata, ownerReferences: [] } };
const CHECK: RawObject & Json = {
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'AdmissionCheck',
  metadata: { name: 'images' },
  spec: { controllerName: 'harbinger.dev/image-prewarm' },
};

interface Lists {
  /** What the job says; absent: its annotation is not there. */
  ofJob?: typeof GATES;
  /** Kueue copies the list of the job to its Workload. */
  copied?: boolean;
}

/** A server with one Workload, its job and our check, which refuses every patch until `backAt`. */
function server(workload: RawObject, clock: FakeClock, backAt: number, { ofJob, copied = true }: Lists) {
  const patches: { at: number; kind: string }[] = [];
  let annotations: Record<string, string> | undefined = ofJob;
  let ungated = (): void => undefined;
  const gone = new Promise<void>((done) => (ungated = done));
  const client = {
    listPage: ({ kind }: Resource, _options?: PageOptions): Promise<Page<RawObject>> =>
      Promise.resolve({ items: [kind === 'Workload' ? workload : CHECK], resourceVersion: '9' }),
    async *watch({ kind }: Resource, { signal, onOpen }: WatchOptions = {}): AsyncGenerator<WatchEvent<RawObject>> {
      onOpen?.();
      const stopped = new Promise((done) => signal?.addEventListener('abort', done));
      if (kind === 'Workload') {
        await Promise.race([stopped, gone]);
        if (signal?.aborted === true) return;
        const { annotations: _lists, ...metadata } = workload.metadata;
        yield { type: 'MODIFIED', object: { ...workload, metadata: { ...metadata, resourceVersion: '10' } } };
      }
      await stopped;
    },
    get: () => Promise.resolve({ apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'train', uid: 'u', annotations } }),
    patch: ({ kind }: Resource) => {
      if (clock.now() < backAt) return Promise.reject(new KubeError('webhook is away', { status: 500, reason: 'InternalError' }));
      patches.push({ at: clock.now(), kind });
      if (kind === 'Job') annotations = undefined;
      if (kind === 'Job' ? copied : workload !== HELD) ungated();
      return Promise.resolve({});
    },
  };
  return { client, patches };
}

describe('an overdue hold whose end is refused for ten minutes, while Kueue restarts', () => {
  const BACK = T0 + 11 * 60_000;
  const gates = (options: WatchdogOptions) => new GateWatch(options, undefined);
  const rows: [string, RawObject, Lists, (options: WatchdogOptions) => HoldWatch | GateWatch, string[]][] = [
    ['a check', HELD, {}, (options) => new HoldWatch(options, undefined), ['Workload']],
    ['a gate', GATED, { ofJob: GATES }, gates, ['Job']],
    ['a gate on an elastic job, whose list nobody copies', GATED, { ofJob: GATES, copied: false }, gates, ['Job', 'Workload']],
    ['a gate on a prebuilt Workload, whose job never had it', GATED, {}, gates, ['Workload']],
    ['a gate on a Workload that nobody owns', UNOWNED, {}, gates, ['Workload']],
  ];
  test.each(rows)('ends within five seconds of its return: %s', async (...[, workload, lists, watchOf, kinds]) => {
    const clock = new FakeClock(T0);
    const { client, patches } = server(workload, clock, BACK, lists);
    const released: string[] = [];
    const watch = watchOf({
      client,
      clock,
      monotonic: () => clock.now(),
      unstampedHoldMs: () => 30_000,
      gatedMs: () => 60_000,
      log: keepLog().log,
      metrics: new Metrics(),
      admission: { released: (reason: string) => released.push(reason) },
      events: { event: () => undefined },
    } as unknown as WatchdogOptions);
    watch.start();
    await clock.advance(BACK - T0);
    expect(patches).toEqual([]);
    await clock.advance(5_000);
    expect(patches[0]?.kind).toBe(kinds[0]);
    // Where Kueue does not copy a list, it had its time to; elsewhere nothing more is written.
    await clock.advance(COPY_MS);
    expect(patches.map((p) => p.kind)).toEqual(kinds);
    expect(released).toHaveLength(1);
    await watch.stop();
  });
});
