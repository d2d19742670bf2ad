import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import type { Page, PageOptions, WatchEvent, WatchOptions, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import { Reflector, type RawObject, type ReflectorOptions } from '../../../src/kube/reflector.js';
import { RESOURCE, type Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog, settle } from './fake-clock.js';

const object = (name: string, version: string, labels: Record<string, string> = {}): RawObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'ns', name, resourceVersion: version, labels },
  spec: { big: 'x' },
});
const failed = (status: number, reason = 'x'): KubeError => new KubeError(`answer ${status}`, { status, reason });

/** A server whose answers are scripted; watches stay open until the script ends them. */
class Script implements WatchPort {
  pages: (Page<RawObject> | Error)[] = [];
  readonly lists: PageOptions[] = [];
  readonly watches: {
    options: WatchOptions;
    send: (...events: WatchEvent<RawObject>[]) => Promise<void>;
    end: (error?: Error) => Promise<void>;
  }[] = [];
  refuse: Error | undefined;

  listPage<T extends KubeObject>(_: Resource, options: PageOptions = {}): Promise<Page<T>> {
    this.lists.push(options);
    const page = this.pages.shift() ?? new Error('the script has no more pages');
    return page instanceof Error ? Promise.reject(page) : Promise.resolve(page as unknown as Page<T>);
  }

  async *watch<T extends KubeObject>(_: Resource, options: WatchOptions = {}): AsyncGenerator<WatchEvent<T>> {
    const queue: (WatchEvent<RawObject> | Error | 'end')[] = [];
    let wake: () => void = () => undefined;
    const push = (entry: (typeof queue)[number]): void => {
      queue.push(entry);
      wake();
    };
    options.signal?.addEventListener('abort', () => push(new Error('aborted')));
    this.watches.push({
      options,
      send: (...events) => (events.forEach(push), settle()),
      end: (error) => (push(error ?? 'end'), settle()),
    });
    if (this.refuse !== undefined) throw this.refuse;
    options.onOpen?.();
    for (;;) {
      const next = queue.shift();
      if (next === 'end') return;
      if (next instanceof Error) throw next;
      if (next !== undefined) yield next as unknown as WatchEvent<T>;
      else await new Promise<void>((done) => (wake = done));
    }
  }

  get lastWatch(): Script['watches'][number] {
    const last = this.watches.at(-1);
    if (last === undefined) throw new Error('nothing is watched');
    return last;
  }
}

interface Slim {
  name: string;
  app: string | undefined;
}

function follow(options: Partial<ReflectorOptions<Slim>> = {}) {
  const script = new Script();
  const clock = new FakeClock();
  const { log, lines } = keepLog();
  const changes: string[] = [];
  const reflector = new Reflector<Slim>({
    client: script,
    resource: RESOURCE.pods,
    project: (raw) => ({ name: raw.metadata.name, app: raw.metadata.labels?.['app'] }),
    indexes: { app: (t) => (t.app === undefined ? [] : [t.app]) },
    clock,
    log,
    random: () => 0.5,
    ...options,
  });
  reflector.onChange((key, now, before) =>
    changes.push(`${before === undefined ? '-' : before.app} > ${now === undefined ? '-' : now.app} ${key}`),
  );
  const page = (version: string, items: RawObject[], token?: string): Page<RawObject> => ({
    items,
    resourceVersion: version,
    ...(token === undefined ? {} : { continue: token }),
  });
  return { script, clock, log: lines, changes, reflector, page };
}

describe('a reflector', () => {
  test('lists in pages, then watches from the version of the list, and keeps only projections', async () => {
    const { script, reflector, page, changes } = follow();
    script.pages = [page('9', [object('a', '1', { app: 'x' })], 'more'), page('9', [object('b', '2', { app: 'y' })])];
    reflector.start();
    expect(reflector.hasSynced).toBe(false);
    await reflector.synced;
    await settle();
    expect(script.lists.map((l) => [l.continue, l.resourceVersion])).toEqual([
      [undefined, undefined],
      ['more', undefined],
    ]);
    expect(script.lastWatch.options).toMatchObject({ resourceVersion: '9', timeoutSeconds: 450 });
    expect(reflector.list()).toEqual([
      { name: 'a', app: 'x' },
      { name: 'b', app: 'y' },
    ]);
    expect(reflector.byIndex('app', 'y')).toEqual([{ name: 'b', app: 'y' }]);
    expect(changes).toEqual(['- > x ns/a', '- > y ns/b']);
    await reflector.stop();
  });

  test('applies events, goes on from the newest version after the watch ended, bookmarks included', async () => {
    const { script, reflector, page, changes, clock } = follow();
    script.pages = [page('9', [object('a', '1', { app: 'x' })])];
    reflector.start();
    await reflector.synced;
    await settle();
    await script.lastWatch.send(
      { type: 'MODIFIED', object: object('a', '10', { app: 'z' }) },
      { type: 'ADDED', object: object('b', '11') },
      { type: 'DELETED', object: object('a', '12') },
      { type: 'BOOKMARK', object: { ...object('', '20'), metadata: { resourceVersion: '20' } as RawObject['metadata'] } },
    );
    expect(changes.slice(1)).toEqual(['x > z ns/a', '- > undefined ns/b', 'z > - ns/a']);
    await clock.advance(2_000);
    await script.lastWatch.end();
    expect(script.watches.map((w) => w.options.resourceVersion)).toEqual(['9', '20']);
    expect(script.lists).toHaveLength(1);
    await reflector.stop();
  });

  test.each([
    ['410', failed(410), 'expired'],
    ['a stream that is no JSON', failed(0, 'Garbage'), 'unreadable'],
  ])('lists again after %s, and what is gone meanwhile is told as deleted', async (_what, error, cause) => {
    const metrics = new Metrics();
    const { script, reflector, page, changes, clock } = follow({ metrics });
    script.pages = [
      page('9', [object('a', '1', { app: 'x' }), object('b', '2')]),
      page('50', [object('b', '2'), object('c', '40')]),
    ];
    reflector.start();
    await reflector.synced;
    await settle();
    await script.lastWatch.end(error);
    await clock.advance(1_200);
    expect(changes.slice(2)).toEqual(['- > undefined ns/c', 'x > - ns/a']);
    expect(script.lastWatch.options.resourceVersion).toBe('50');
    expect(await metrics.text()).toContain(`harbinger_kube_relists_total{resource="pods",cause="${cause}"} 1`);
    await reflector.stop();
  });

  test('does not list again when the server is away, and says so until it is back', async () => {
    const { script, reflector, page, clock } = follow();
    script.pages = [page('9', [object('a', '1')])];
    reflector.start();
    await reflector.synced;
    await settle();
    script.refuse = failed(0, 'Unreachable');
    await script.lastWatch.end(failed(0, 'Unreachable'));
    await clock.advance(120_000);
    expect(script.lists).toHaveLength(1);
    expect(reflector.problem).toBe('answer 0');
    expect(reflector.get('ns/a')).toBeDefined();
    // 0.8-30 s with growing steps: about ten tries in two minutes, not one a second.
    expect(script.watches.length).toBeGreaterThan(5);
    expect(script.watches.length).toBeLessThan(15);
    script.refuse = undefined;
    await clock.advance(30_000);
    expect(reflector.problem).toBeUndefined();
    expect(script.lastWatch.options.resourceVersion).toBe('9');
    await reflector.stop();
  });

  test('a list that breaks between pages starts again and is complete only then', async () => {
    const { script, reflector, page, clock } = follow();
    script.pages = [page('9', [object('a', '1')], 'more'), failed(410), page('20', [object('b', '2')])];
    reflector.start();
    await clock.advance(1_000);
    expect([reflector.hasSynced, script.lists.length]).toEqual([false, 2]);
    await clock.advance(1_000);
    expect(reflector.hasSynced).toBe(true);
    expect(reflector.list().map((o) => o.name)).toEqual(['b']);
    await reflector.stop();
  });

  test('a list that expires between pages goes on, and the watch starts where the list began', async () => {
    const { script, reflector, page } = follow();
    const expired = new KubeError('too old', { status: 410, reason: 'Expired', continueToken: 'later' });
    script.pages = [page('9', [object('a', '1')], 'more'), expired, page('20', [object('b', '15')])];
    reflector.start();
    await reflector.synced;
    await settle();
    expect(script.lists.map((l) => l.continue)).toEqual([undefined, 'more', 'later']);
    expect(script.lastWatch.options.resourceVersion).toBe('9');
    expect(reflector.list().map((o) => o.name)).toEqual(['a', 'b']);
    await reflector.stop();
  });

  test.each([
    ['forbidden', failed(403), /not allowed to list and watch pods: grant both verbs/],
    ['absent', failed(404), /does not serve pods in v1: install its CustomResourceDefinition/],
  ])('%s is told, retried slowly, and overcome', async (_what, error, problem) => {
    const { script, reflector, page, clock, log } = follow();
    script.pages = [error, error, page('9', [object('a', '1')])];
    reflector.start();
    await clock.advance(22_000);
    expect(reflector.problem).toMatch(problem);
    expect(script.lists).toHaveLength(1);
    await clock.advance(50_000);
    expect([reflector.hasSynced, reflector.problem]).toEqual([true, undefined]);
    expect(log.filter((l) => l.msg === 'cannot follow a resource')).toHaveLength(1);
    await reflector.stop();
  });

  test('an absent resource does not empty the cache', async () => {
    const { script, reflector, page, clock, changes } = follow();
    script.pages = [page('9', [object('a', '1')]), failed(404), failed(404)];
    reflector.start();
    await reflector.synced;
    await settle();
    await script.lastWatch.end(failed(410));
    await clock.advance(60_000);
    expect(reflector.get('ns/a')).toBeDefined();
    expect(changes).toHaveLength(1);
    await reflector.stop();
  });

  test.each([
    ['the asked end has passed', false, 455_000],
    ['bookmarks stop', true, 180_000],
  ])('takes a connection for dead when %s, and watches on from the same version', async (_what, bookmark, ms) => {
    const { script, reflector, page, clock } = follow();
    script.pages = [page('9', [])];
    reflector.start();
    await reflector.synced;
    await settle();
    if (bookmark) await script.lastWatch.send({ type: 'BOOKMARK', object: object('', '9') });
    await clock.advance(ms - 1);
    expect(script.watches).toHaveLength(1);
    await clock.advance(1 + 1_200);
    expect(script.watches.map((w) => w.options.resourceVersion)).toEqual(['9', '9']);
    expect(script.watches[0]?.options.signal?.aborted).toBe(true);
    expect(script.lists).toHaveLength(1);
    await reflector.stop();
  });

  test('lists again once in a while, and an unchanged object is no change', async () => {
    const { script, reflector, page, clock, changes } = follow();
    script.pages = [page('9', [object('a', '1')]), page('30', [object('a', '1'), object('missed', '25')])];
    reflector.start();
    await reflector.synced;
    for (let i = 0; i < 3; i++) {
      await clock.advance(450_000);
      await script.lastWatch.end();
    }
    expect(script.lists).toHaveLength(2);
    expect(changes).toEqual(['- > undefined ns/a', '- > undefined ns/missed']);
    await reflector.stop();
  });

  test('keeps going when a handler or a projection throws', async () => {
    const metrics = new Metrics();
    const { script, reflector, page, changes, log } = follow({
      metrics,
      project: (raw) => {
        if (raw.metadata.name === 'bad') throw new TypeError('no spec');
        return { name: raw.metadata.name, app: undefined };
      },
    });
    let first = true;
    reflector.onChange(() => {
      if (first) throw new Error('handler');
    });
    script.pages = [page('9', [object('a', '1'), object('bad', '2')])];
    reflector.start();
    await reflector.synced;
    await settle();
    first = false;
    await script.lastWatch.send({ type: 'ADDED', object: object('c', '10') });
    expect(changes).toEqual(['- > undefined ns/a', '- > undefined ns/c']);
    expect(reflector.get('ns/bad')).toBeUndefined();
    expect(log.filter((l) => l.level >= 50).map((l) => [l.msg, l['key']])).toEqual([
      ['a change handler threw', 'ns/a'],
      ['an object cannot be read and counts as absent', 'ns/bad'],
    ]);
    expect(await metrics.text()).toContain('harbinger_kube_handler_errors_total{resource="pods"} 2');
    await reflector.stop();
  });

  test.each(['in a watch', 'in a back-off', 'in a list'])('stop %s is final and silent', async (where) => {
    const { script, reflector, page, clock, log, changes } = follow();
    script.pages = where === 'in a back-off' ? [failed(500)] : [page('9', [])];
    if (where === 'in a list') script.listPage = () => new Promise((_, reject) => setImmediate(() => reject(failed(500))));
    reflector.start();
    reflector.start();
    if (where !== 'in a list') await settle();
    const told = log.length;
    const watches = script.watches.length;
    await reflector.stop();
    reflector.start();
    await clock.advance(3_600_000);
    expect([log.length, script.watches.length, changes.length, clock.pending]).toEqual([told, watches, 0, 0]);
  });

  test('starting twice is one loop', async () => {
    const { script, reflector, page } = follow();
    script.pages = [page('9', []), page('9', [])];
    reflector.start();
    reflector.start();
    await reflector.synced;
    await settle();
    expect([script.lists.length, script.watches.length]).toEqual([1, 1]);
    await reflector.stop();
  });
});
