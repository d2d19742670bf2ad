import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ManifestFact, RegistryPort } from '../../../src/images/registry-port.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { SlottedRegistry } from '../../../src/registry/slots.js';
import { TestClock, ref } from './support.js';

const fact = {} as ManifestFact;

/** A registry whose calls end when told to. */
function setup(limits = { total: 4, perHost: 2 }) {
  const clock = new TestClock();
  const metrics = new Metrics();
  const open: { host: string; end: () => void }[] = [];
  const unused = (): Promise<never> => Promise.reject(new Error('not asked here'));
  const inner: RegistryPort = {
    manifest: ({ registry }) => new Promise((resolve) => open.push({ host: registry, end: () => resolve(fact) })),
    config: unused,
    referrers: unused,
  };
  const slots = new SlottedRegistry(inner, { limits, clock, metrics });
  const ask = (host: string, image = 'app'): Promise<string> =>
    slots.manifest(ref(`${host}/${image}:v1`)).then(
      () => 'answered',
      (error: unknown) => (error instanceof RegistryError ? error.outcome : 'threw'),
    );
  const hosts = (): string[] => open.map((c) => c.host);
  const end = async (host: string): Promise<void> => {
    const index = open.findIndex((c) => c.host === host);
    open.splice(index, 1)[0]?.end();
    await new Promise(setImmediate);
  };
  const refused = async (reason: string): Promise<number> => {
    const line = (await metrics.text())
      .split('\n')
      .find((l) => l.startsWith(`harbinger_registry_calls_refused_total{reason="${reason}"}`));
    return Number(line?.split(' ')[1]);
  };
  return { clock, ask, hosts, end, refused, metrics };
}

describe('calls to registries', () => {
  test('are made at once as long as there is room, and then in turn', async () => {
    const { ask, hosts, end } = setup();
    const answers = [ask('a.example'), ask('a.example'), ask('a.example')];
    expect(hosts()).toEqual(['a.example', 'a.example']);
    await end('a.example');
    expect(hosts()).toHaveLength(2);
    await end('a.example');
    await end('a.example');
    expect(await Promise.all(answers)).toEqual(['answered', 'answered', 'answered']);
  });

  test('to a host that is slow leave room for the others', () => {
    const { ask, hosts } = setup();
    for (let i = 0; i < 10; i++) void ask('slow.example');
    void ask('good.example');
    expect(hosts()).toEqual(['slow.example', 'slow.example', 'good.example']);
  });

  test('take turns between hosts', async () => {
    const { ask, hosts, end } = setup({ total: 1, perHost: 1 });
    for (const host of ['a.example', 'a.example', 'a.example', 'b.example']) void ask(host);
    const order: string[] = [];
    for (let i = 0; i < 4; i++) {
      const [host = ''] = hosts();
      order.push(host);
      await end(host);
    }
    expect(order).toEqual(['a.example', 'a.example', 'b.example', 'a.example']);
  });

  test('that wait longer than any admission are not made any more', async () => {
    const { ask, hosts, end, clock, refused } = setup({ total: 1, perHost: 1 });
    void ask('a.example');
    const late = ask('a.example', 'late');
    clock.advance(2_501);
    const inTime = ask('a.example', 'in-time');
    await end('a.example');
    expect([await late, await refused('late'), hosts()]).toEqual(['budget-exceeded', 1, ['a.example']]);
    await end('a.example');
    expect(await inTime).toBe('answered');
  });

  test('of ten thousand images at once are refused beyond those that can wait', async () => {
    const { ask, hosts, refused } = setup();
    const all = Array.from({ length: 10_000 }, (_, i) => ask('a.example', `app-${i}`));
    expect(await Promise.race(all.slice(-1))).toBe('budget-exceeded');
    expect([hosts().length, await refused('full')]).toEqual([2, 10_000 - 2 - 2_000]);
  });

  test('never exceed a limit, and each ends, whatever the order of events', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.boolean(), fc.nat(3)), { maxLength: 60 }), async (events) => {
        const limits = { total: 3, perHost: 2 };
        const { ask, hosts, end } = setup(limits);
        const all: Promise<string>[] = [];
        const check = (): void => {
          expect(hosts().length).toBeLessThanOrEqual(limits.total);
          for (const host of hosts()) expect(hosts().filter((h) => h === host).length).toBeLessThanOrEqual(limits.perHost);
        };
        for (const [arrives, which] of events) {
          const [first] = hosts();
          if (arrives) all.push(ask(`h${which}.example`));
          else if (first !== undefined) await end(first);
          check();
        }
        for (let [first] = hosts(); first !== undefined; [first] = hosts()) await end(first);
        expect(new Set(await Promise.all(all))).toEqual(new Set(all.length > 0 ? ['answered'] : []));
      }),
      { numRuns: 50 },
    );
  });
});
