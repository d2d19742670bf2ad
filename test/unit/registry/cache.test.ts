import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { RegistryErrorDetails } from '../../../src/images/registry-port.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { CachedRegistry, TTL_MS } from '../../../src/registry/cache.js';
import { MemoryRegistry, bodyDigest, digestOf, manifestBody } from '../images/support.js';
import { TestClock, failure, ref } from './support.js';

const IMAGE = 'r.example.com/a:1';
const old = manifestBody({ name: 'old' });
const next = manifestBody({ name: 'next' });

function setup(body: object | Error = old) {
  const clock = new TestClock();
  const metrics = new Metrics();
  const port = new MemoryRegistry().set(IMAGE, body);
  const cached = new CachedRegistry(port, { clock, metrics });
  const digest = async (options = {}): Promise<string> => (await cached.manifest(ref(IMAGE), options)).digest;
  return { clock, metrics, port, cached, digest };
}

const refusal = (details: Partial<RegistryErrorDetails>): RegistryError =>
  new RegistryError('no', { outcome: 'registry-error', host: 'r.example.com', ...details });

describe('answers are remembered', () => {
  test('a thousand that ask at once cause one call', async () => {
    const { port, digest } = setup();
    const found = await Promise.all(Array.from({ length: 1000 }, () => digest()));
    expect(new Set(found)).toEqual(new Set([bodyDigest(old)]));
    expect(port.asked).toHaveLength(1);
  });

  test('a tag for its time, once more while it is asked anew, and not longer', async () => {
    const { clock, port, digest } = setup();
    await digest();
    port.set(IMAGE, next);
    clock.advance(TTL_MS.tag - 1);
    expect(await digest()).toBe(bodyDigest(old));
    expect(port.asked).toHaveLength(1);
    clock.advance(2);
    expect(await digest()).toBe(bodyDigest(old));
    await new Promise(setImmediate);
    expect(await digest()).toBe(bodyDigest(next));
    expect(port.asked).toHaveLength(2);
  });

  test('an old tag that nobody asked for meanwhile is not given at all', async () => {
    const { clock, port, digest } = setup();
    await digest();
    port.set(IMAGE, next);
    clock.advance(TTL_MS.tag + TTL_MS.tagStale + 1);
    expect(await digest()).toBe(bodyDigest(next));
  });

  test('a digest for minutes, as what it names may be deleted', async () => {
    const { clock, port, cached } = setup();
    const ask = () => cached.manifest(ref(`r.example.com/a@${bodyDigest(old)}`));
    await ask();
    expect(TTL_MS.digest).toBeLessThanOrEqual(10 * 60_000);
    clock.advance(TTL_MS.digest - 1);
    await ask();
    expect(port.asked).toHaveLength(1);
    clock.advance(2);
    await ask();
    await new Promise(setImmediate);
    expect(port.asked).toHaveLength(2);
  });

  test('a config too', async () => {
    const { port, cached } = setup();
    const config = digestOf('config');
    port.setConfig(config, 'linux/amd64');
    expect(await cached.config(ref(IMAGE), config)).toMatchObject({ platform: 'linux/amd64' });
    expect(await cached.config(ref('r.example.com/a:2'), config)).toMatchObject({ platform: 'linux/amd64' });
    expect(port.asked).toHaveLength(1);
  });

  test.each<[string, Partial<RegistryErrorDetails>, number]>([
    ['that an image is not there', { outcome: 'variant-missing', status: 404 }, TTL_MS.notFound],
    ['that it is denied', { outcome: 'auth-denied', status: 401 }, TTL_MS.denied],
    ['that the registry failed', { status: 500 }, TTL_MS.error],
  ])('%s, shortly', async (_, details, ttl) => {
    const { clock, port, digest } = setup(refusal(details));
    await failure(digest());
    port.set(IMAGE, old);
    clock.advance(ttl);
    expect(await failure(digest())).toMatchObject({ message: 'no' });
    expect(port.asked).toHaveLength(1);
    clock.advance(1);
    expect(await digest()).toBe(bodyDigest(old));
  });

  test('that a host is left alone is not remembered: the breaker knows when that ends', async () => {
    const { clock, port, digest } = setup(refusal({ outcome: 'circuit-open' }));
    await failure(digest());
    port.set(IMAGE, old);
    clock.advance(2);
    expect(await digest()).toBe(bodyDigest(old));
  });

  test.each<[string, Partial<RegistryErrorDetails>]>([
    ['that fails', { status: 500 }],
    ['that is left alone', { outcome: 'circuit-open' }],
    ['that had no turn', { outcome: 'budget-exceeded' }],
  ])('by a registry %s when it is asked anew, until their time is over', async (_, details) => {
    const { clock, port, digest } = setup();
    await digest();
    port.set(IMAGE, refusal(details));
    clock.advance(TTL_MS.tag + 1);
    for (let i = 0; i < 3; i += 1) {
      expect(await digest()).toBe(bodyDigest(old));
      await new Promise(setImmediate);
    }
    // Not for each of those that ask.
    expect(port.asked).toHaveLength(2);
    clock.advance(TTL_MS.error + 1);
    expect(await digest()).toBe(bodyDigest(old));
    await new Promise(setImmediate);
    expect(port.asked).toHaveLength(3);
    // Whoever asks past the cache is told, and takes nothing from the others.
    expect(await failure(digest({ fresh: true }))).toMatchObject(details);
    expect(await digest()).toBe(bodyDigest(old));
    clock.advance(TTL_MS.tagStale);
    expect(await failure(digest())).toMatchObject(details);
  });

  test.each<[string, Partial<RegistryErrorDetails>]>([
    ['access is denied', { outcome: 'auth-denied', status: 401 }],
    ['the image is gone', { outcome: 'variant-missing', status: 404 }],
  ])('no longer once %s', async (_, details) => {
    const { clock, port, digest } = setup();
    await digest();
    port.set(IMAGE, refusal(details));
    clock.advance(TTL_MS.tag + 1);
    await digest();
    await new Promise(setImmediate);
    expect(await failure(digest())).toMatchObject(details);
  });
});

describe('answers are not shared where they must not be', () => {
  test('each credential has its own', async () => {
    const { port, digest } = setup();
    const credential = { username: 'u', password: 'p' };
    await digest({ credential });
    port.set(IMAGE, refusal({ outcome: 'auth-denied' }));
    expect(await digest({ credential })).toBe(bodyDigest(old));
    expect(await failure(digest())).toMatchObject({ outcome: 'auth-denied' });
    expect(await failure(digest({ credential: { username: 'u', password: 'q' } }))).toMatchObject({ outcome: 'auth-denied' });
  });

  test('what anybody may read is neither what a credential may, nor what Harbinger may', async () => {
    const { port, digest } = setup();
    const credential = { username: 'u', password: 'p' };
    await digest({ credential });
    await digest();
    port.set(IMAGE, refusal({ outcome: 'auth-denied' }));
    expect(await failure(digest({ anonymous: true, credential, forPod: true }))).toMatchObject({ outcome: 'auth-denied' });
    expect(port.options.at(-1)).toEqual({ anonymous: true });
    expect(await digest()).toBe(bodyDigest(old));
  });

  test('each credential is the one that the registry is asked with', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ user: fc.constantFrom('a', 'b', 'ab'), password: fc.constantFrom('', 'a', 'b', 'ba') }), {
          maxLength: 12,
        }),
        async (pairs) => {
          const { port, digest } = setup();
          for (const { user, password } of pairs) await digest({ credential: { username: user, password } });
          const distinct = new Set(pairs.map(({ user, password }) => JSON.stringify([user, password])));
          expect(port.options.map((o) => JSON.stringify([o.credential?.username, o.credential?.password])).sort()).toEqual(
            [...distinct].sort(),
          );
        },
      ),
      { numRuns: 100 },
    );
  });
});

test('no answer is older than its time, whoever asks when', async () => {
  const step = fc.record({
    waitMs: fc.integer({ min: 0, max: 45_000 }),
    moves: fc.boolean(),
    by: fc.constantFrom('tag', 'digest'),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20 }), async (steps) => {
      const { clock, port, cached } = setup();
      // When each body stopped to be what the tag leads to.
      const replaced = new Map<string, number>();
      let current = manifestBody({ name: '0' });
      port.set(IMAGE, current);
      for (const [i, { waitMs, moves, by }] of steps.entries()) {
        clock.advance(waitMs);
        if (moves) {
          replaced.set(bodyDigest(current), clock.now());
          current = manifestBody({ name: `${i + 1}` });
          port.set(IMAGE, current);
        }
        const name = by === 'tag' ? IMAGE : `r.example.com/a@${bodyDigest(current)}`;
        const { digest } = await cached.manifest(ref(name));
        await new Promise(setImmediate);
        const age = clock.now() - (replaced.get(digest) ?? clock.now());
        expect(age).toBeLessThanOrEqual(by === 'tag' ? TTL_MS.tag + TTL_MS.tagStale : 0);
      }
    }),
    { numRuns: 100 },
  );
});

describe('a caller', () => {
  test('may ask past the cache, and its answer is remembered for all', async () => {
    const { port, digest } = setup();
    await digest();
    port.set(IMAGE, next);
    expect(await digest()).toBe(bodyDigest(old));
    expect(await digest({ fresh: true })).toBe(bodyDigest(next));
    expect(await digest()).toBe(bodyDigest(next));
    expect(port.asked).toHaveLength(2);
  });

  test('that gives up ends at once; the call goes on and serves the next', async () => {
    const clock = new TestClock();
    const port = new MemoryRegistry().set(IMAGE, old);
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const slow = {
      manifest: async (...args: Parameters<MemoryRegistry['manifest']>) => (await gate, port.manifest(...args)),
      config: port.config.bind(port),
      referrers: port.referrers.bind(port),
    };
    const cached = new CachedRegistry(slow, { clock, metrics: new Metrics() });
    expect(await failure(cached.manifest(ref(IMAGE), { signal: AbortSignal.timeout(10) }))).toMatchObject({
      outcome: 'budget-exceeded',
    });
    expect(await failure(cached.manifest(ref(IMAGE), { signal: AbortSignal.abort() }))).toMatchObject({
      outcome: 'budget-exceeded',
    });
    const patient = cached.manifest(ref(IMAGE));
    release();
    expect(await patient).toMatchObject({ digest: bodyDigest(old) });
    expect(await cached.manifest(ref(IMAGE), { signal: AbortSignal.timeout(1000) })).toMatchObject({ digest: bodyDigest(old) });
    expect(port.asked).toHaveLength(1);
  });

  test('does not hand its signal to the shared call', async () => {
    const { port, digest } = setup();
    await digest({ signal: AbortSignal.timeout(1000), fresh: true });
    expect(port.options).toEqual([{}]);
  });
});

test('hits, misses and calls past the cache are counted', async () => {
  const { metrics, digest } = setup();
  await digest();
  await digest();
  await digest({ fresh: true });
  const text = await metrics.text();
  for (const result of ['hit', 'miss', 'bypass']) expect(text).toContain(`harbinger_registry_cache_total{result="${result}"} 1`);
});

test('long lists of referrers push each other out too', async () => {
  const { port, cached } = setup();
  const annotations = { filler: 'x'.repeat(3_000_000) };
  port.referrersAnswer = { referrers: [{ digest: digestOf('r'), mediaType: 'm', size: 1, annotations }] };
  for (let i = 0; i < 40; i += 1) await cached.referrers(ref(IMAGE), digestOf(`${i}`));
  port.asked.length = 0;
  await cached.referrers(ref(IMAGE), digestOf('39'));
  expect(port.asked).toHaveLength(0);
  await cached.referrers(ref(IMAGE), digestOf('0'));
  expect(port.asked).toHaveLength(1);
});

test('huge manifests push each other out instead of filling the memory', async () => {
  const { port, cached } = setup();
  const annotations = { filler: 'x'.repeat(3_000_000) };
  for (let i = 0; i < 40; i += 1) port.set(`r.example.com/a:${i}`, manifestBody({ name: `${i}`, annotations }));
  for (let i = 0; i < 40; i += 1) await cached.manifest(ref(`r.example.com/a:${i}`));
  port.asked.length = 0;
  await cached.manifest(ref('r.example.com/a:39'));
  expect(port.asked).toHaveLength(0);
  await cached.manifest(ref('r.example.com/a:0'));
  expect(port.asked).toHaveLength(1);
});
