import { describe, expect, test } from '@jest/globals';
import type { Json } from '../../../src/api/json.js';
import type { Page, PageOptions, WatchOptions } from '../../../src/kube/client.js';
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
const CHECK: RawObject & Json = {
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'AdmissionCheck',
  metadata: { name: 'images' },
  spec: { controllerName: 'harbinger.dev/image-prewarm' },
};

/** A server with one Workload and our check, which refuses every patch until `backAt`. */
function server(workload: RawObject, clock: FakeClock, backAt: number) {
  const patches: { at: number; kind: string }[] = [];
  const client = {
    listPage: ({ kind }: Resource, _options?: PageOptions): Promise<Page<RawObject>> =>
      Promise.resolve({ items: [kind === 'Workload' ? workload : CHECK], resourceVersion: '9' }),
    // eslint-disable-next-line require-yield -- Nothing changes: the watch waits until it is stopped.
    async *watch(_resource: Resource, { signal, onOpen }: WatchOptions = {}): AsyncGenerator<never> {
      onOpen?.();
      await new Promise((done) => signal?.addEventListener('abort', done));
    },
    get: () =>
      Promise.resolve({ apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'train', uid: 'u', annotations: GATES } }),
    patch: ({ kind }: Resource) => {
      if (clock.now() < backAt) return Promise.reject(new KubeError('webhook is away', { status: 500, reason: 'InternalError' }));
      patches.push({ at: clock.now(), kind });
      return Promise.resolve({});
    },
  };
  return { client, patches };
}

describe('an overdue hold whose end is refused for ten minutes, while Kueue restarts', () => {
  const BACK = T0 + 11 * 60_000;
  const rows: [string, RawObject, (options: WatchdogOptions) => HoldWatch | GateWatch, string][] = [
    ['a check', HELD, (options) => new HoldWatch(options, undefined), 'Workload'],
    ['a gate', GATED, (options) => new GateWatch(options, undefined), 'Job'],
  ];
  test.each(rows)('ends within five seconds of its return: %s', async (...[, workload, watchOf, kind]) => {
    const clock = new FakeClock(T0);
    const { client, patches } = server(workload, clock, BACK);
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
    expect(patches.map((p) => p.kind)).toEqual([kind]);
    expect(released).toHaveLength(1);
    await watch.stop();
  });
});
