import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeError } from '../../../src/kube/errors.js';
import { EventRecorder, cutBytes, referenceOf, type EventInput } from '../../../src/kube/events.js';
import type { ObjectName, Patch } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog } from './fake-clock.js';

function recorder() {
  const clock = new FakeClock();
  const created: (KubeObject & Record<string, unknown>)[] = [];
  const patched: unknown[] = [];
  const world: { fail?: Error } = {};
  const metrics = new Metrics();
  const { log, lines } = keepLog();
  const client = {
    create<T extends KubeObject>(_: Resource, object: KubeObject): Promise<T> {
      if (world.fail) return Promise.reject(world.fail);
      created.push(object as KubeObject & Record<string, unknown>);
      return Promise.resolve(object as T);
    },
    patch<T extends KubeObject>(_: Resource, name: ObjectName, patch: Patch): Promise<T> {
      if (world.fail) return Promise.reject(world.fail);
      patched.push([name.name, patch.type === 'merge' ? patch.body : patch.ops]);
      return Promise.resolve({} as T);
    },
  };
  const events = new EventRecorder({ client, controller: 'harbinger.dev/controller', instance: 'pod-1', clock, log, metrics });
  return { clock, created, patched, world, events, lines, metrics };
}

const input = (more: Partial<EventInput> = {}): EventInput => ({
  regarding: { apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name: 'p', uid: 'u' },
  type: 'Normal',
  reason: 'Warmed',
  action: 'Prewarm',
  note: 'all nodes are warm',
  ...more,
});

describe('the event recorder', () => {
  test('writes an Event of events.k8s.io/v1 with six-digit times', async () => {
    const { events, created, clock } = recorder();
    events.event(input());
    await clock.advance(0);
    expect(created).toEqual([
      expect.objectContaining({
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { namespace: 'ns', name: expect.stringMatching(/^p\.[0-9a-f]+$/) },
        eventTime: '2026-01-01T00:00:00.000000Z',
        reportingController: 'harbinger.dev/controller',
        reportingInstance: 'pod-1',
        regarding: input().regarding,
        type: 'Normal',
        reason: 'Warmed',
        action: 'Prewarm',
        note: 'all nodes are warm',
      }),
    ]);
  });

  test('puts Events about cluster-scoped objects into the default namespace', async () => {
    const { events, created, clock } = recorder();
    events.event(input({ regarding: referenceOf({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n', uid: 'u' } }) }));
    await clock.advance(0);
    expect(created[0]?.metadata.namespace).toBe('default');
  });

  test('tells repetitions as a series, at most every 30 s, and another text as another Event', async () => {
    const { events, created, patched, clock } = recorder();
    for (let i = 0; i < 100; i++) {
      events.event(input());
      await clock.advance(1_000);
    }
    events.event(input({ note: 'one node is cold' }));
    await clock.advance(60_000);
    expect(created).toHaveLength(2);
    expect(patched.length).toBeLessThanOrEqual(5);
    expect(patched.at(-1)).toEqual([
      created[0]?.metadata.name,
      { series: { count: 100, lastObservedTime: '2026-01-01T00:01:39.000000Z' } },
    ]);
  });

  test('a text that rested for a while is news again', async () => {
    const { events, created, clock } = recorder();
    events.event(input());
    await clock.advance(400_000);
    events.event(input());
    await clock.advance(0);
    expect(created).toHaveLength(2);
  });

  test('writes a burst of 50, then 10 a second, and drops what a full queue cannot hold', async () => {
    const { events, created, clock, metrics } = recorder();
    for (let i = 0; i < 3_000; i++) events.event(input({ note: `n${i}` }));
    await clock.advance(0);
    expect(created.length).toBeGreaterThanOrEqual(50);
    expect(created.length).toBeLessThanOrEqual(51);
    await clock.advance(10_000);
    expect(created.length).toBeGreaterThan(140);
    expect(created.length).toBeLessThan(155);
    const dropped = /result="dropped"} (\d+)/.exec(await metrics.text())?.[1];
    expect(Number(dropped)).toBeGreaterThan(1_900);
  });

  test('never throws: a server that refuses costs a debug line and a count', async () => {
    const { events, created, world, clock, metrics, lines } = recorder();
    world.fail = new KubeError('namespace is being terminated', { status: 403, reason: 'Forbidden' });
    events.event(input());
    await clock.advance(0);
    expect(await metrics.text()).toContain('harbinger_kube_events_total{result="failed"} 1');
    expect(lines.every((l) => l.level <= 20)).toBe(true);
    delete world.fail;
    events.event(input());
    await clock.advance(30_000);
    expect(created[0]).toMatchObject({ series: { count: 2 } });
  });

  test('an Event that expired on the server is written anew', async () => {
    const { events, created, world, clock } = recorder();
    events.event(input());
    await clock.advance(31_000);
    world.fail = new KubeError('gone', { status: 404, reason: 'NotFound' });
    events.event(input());
    await clock.advance(0);
    delete world.fail;
    events.event(input());
    await clock.advance(30_000);
    expect(created).toHaveLength(2);
  });

  test('stop sends a repetition too that was told while the first one was on its way', async () => {
    const { events, created, patched, clock } = recorder();
    for (let i = 0; i < 3; i++) events.event(input());
    const stopping = events.stop();
    await clock.advance(2_000);
    await stopping;
    expect([created.length, patched]).toEqual([
      1,
      [[created[0]?.metadata.name, expect.objectContaining({ series: expect.objectContaining({ count: 3 }) })]],
    ]);
  });

  test('stop sends what is queued and takes nothing more', async () => {
    const { events, created, patched, clock } = recorder();
    events.event(input());
    await clock.advance(0);
    events.event(input());
    events.event(input({ note: 'last words' }));
    const stopping = events.stop();
    await clock.advance(2_000);
    await stopping;
    events.event(input({ note: 'too late' }));
    await clock.advance(60_000);
    expect([created.length, patched.length, clock.pending]).toEqual([2, 1, 0]);
  });
});

describe('a note', () => {
  test.each([
    ['short', 'short'],
    ['exactly at the limit', 'x'.repeat(1024)],
  ])('that is %s stays', (_what, text) => {
    expect(cutBytes(text, 1024)).toBe(text);
  });

  test.each([
    ['one byte each', 'x'.repeat(2000)],
    ['two bytes each', 'ä'.repeat(1000)],
    ['four bytes each', '🚀'.repeat(400)],
  ])('that is too long is cut between characters of %s', (_what, text) => {
    const cut = cutBytes(text, 1024);
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(1024);
    expect(Buffer.byteLength(cut)).toBeGreaterThan(1015);
    expect(cut).not.toContain('�');
    expect(cut.endsWith('…')).toBe(true);
  });
});
