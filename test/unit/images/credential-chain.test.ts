import { describe, expect, test } from '@jest/globals';
import { withCredentials } from '../../../src/images/credential-chain.js';
import type { CredentialChain } from '../../../src/images/credential-chain.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { Credential, LookupOptions, RegistryOutcome, RegistryPort } from '../../../src/images/registry-port.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { CachedRegistry } from '../../../src/registry/cache.js';
import { TestClock, failure, ref } from '../registry/support.js';
import { MemoryRegistry, manifestBody } from './support.js';

const IMAGE = 'r.example.com/a:1';
const [one, two, three]: Credential[] = ['one', 'two', 'three'].map((username) => ({ username, password: 'p' }));

/** A registry that answers only to some users; `own` stands for whoever brings no credential. */
function portFor(answers: Record<string, 'ok' | RegistryOutcome>): { port: RegistryPort; asked: LookupOptions[] } {
  const memory = new MemoryRegistry().set(IMAGE, manifestBody({ name: 'good' })).setConfig('config', 'linux/amd64');
  const asked: LookupOptions[] = [];
  const gate = (options: LookupOptions = {}): void => {
    asked.push(options);
    const outcome = answers[options.credential?.username ?? 'own'] ?? 'auth-denied';
    if (outcome !== 'ok') throw new RegistryError(outcome, { outcome, host: 'r.example.com', status: 401 });
  };
  const port: RegistryPort = {
    manifest: async (reference, options) => (gate(options), memory.manifest(reference, options)),
    config: async (reference, digest, options) => (gate(options), memory.config(reference, digest, options)),
    referrers: async (reference, digest, options) => (gate(options), memory.referrers(reference, digest, options)),
  };
  return { port, asked };
}

const users = (asked: readonly LookupOptions[]): string[] => asked.map(({ credential }) => credential?.username ?? 'own');

describe('a chain of credentials', () => {
  test.each<[string, CredentialChain, Record<string, 'ok' | RegistryOutcome>, string[]]>([
    ['ends at the first that serves', [one, two, undefined], { one: 'ok' }, ['one']],
    ['goes on where one is denied', [one, two, undefined], { two: 'ok' }, ['one', 'two']],
    ["ends with Harbinger's own", [one, two, undefined], { own: 'ok' }, ['one', 'two', 'own']],
    ["is Harbinger's own where it is empty", [], { own: 'ok' }, ['own']],
  ])('%s', async (_, chain, answers, expected) => {
    const { port, asked } = portFor(answers);
    expect(await withCredentials(port, chain).manifest(ref(IMAGE))).toMatchObject({ kind: 'manifest' });
    expect(users(asked)).toEqual(expected);
    // Whoever is asked knows that it is for a Pod.
    expect(asked.every(({ forPod }) => forPod === true)).toBe(true);
  });

  test.each<RegistryOutcome>(['variant-missing', 'registry-error', 'circuit-open', 'budget-exceeded'])(
    'does not go on where the answer is %s: that says nothing about the credential',
    async (outcome) => {
      const { port, asked } = portFor({ one: outcome, two: 'ok' });
      expect(await failure(withCredentials(port, [one, two]).manifest(ref(IMAGE)))).toMatchObject({ outcome });
      expect(users(asked)).toEqual(['one']);
    },
  );

  test('is given up after four, and the message says how many were denied', async () => {
    const { port, asked } = portFor({ five: 'ok' });
    const chain = ['a', 'b', 'c', 'd', 'five'].map((username) => ({ username, password: 'p' }));
    expect(await failure(withCredentials(port, chain).manifest(ref(IMAGE)))).toMatchObject({
      outcome: 'auth-denied',
      status: 401,
      message: expect.stringContaining('the last of 4 credentials; all were denied'),
    });
    expect(users(asked)).toEqual(['a', 'b', 'c', 'd']);
    // One alone is not counted.
    expect((await failure(withCredentials(port, [one]).manifest(ref(IMAGE)))).message).toBe('auth-denied');
  });

  test('starts with what served the repository before', async () => {
    const { port, asked } = portFor({ two: 'ok', three: 'ok' });
    const chained = withCredentials(port, [one, two, three]);
    await chained.manifest(ref(IMAGE));
    await chained.config(ref(IMAGE), 'config');
    await chained.referrers(ref(IMAGE), 'digest');
    expect(users(asked)).toEqual(['one', 'two', 'two', 'two']);
  });

  test('keeps the other wishes of a caller, and replaces a credential that it brings', async () => {
    const { port, asked } = portFor({ one: 'ok' });
    await withCredentials(port, [one]).manifest(ref(IMAGE), { fresh: true, ...(two === undefined ? {} : { credential: two }) });
    expect(asked).toEqual([{ fresh: true, credential: one, forPod: true }]);
  });

  test('is left out where the question is what anybody may read', async () => {
    const { port, asked } = portFor({ one: 'ok' });
    expect(await failure(withCredentials(port, [one, two]).manifest(ref(IMAGE), { anonymous: true }))).toMatchObject({
      outcome: 'auth-denied',
    });
    expect(asked).toEqual([{ anonymous: true }]);
  });

  test('shows a tenant nothing that another one asked for', async () => {
    const { port, asked } = portFor({ one: 'ok' });
    const cached = new CachedRegistry(port, { clock: new TestClock(), metrics: new Metrics() });
    await withCredentials(cached, [one]).manifest(ref(IMAGE));
    await withCredentials(cached, [one]).manifest(ref(IMAGE));
    expect(users(asked)).toEqual(['one']);
    for (const chain of [[two], [undefined], []])
      expect(await failure(withCredentials(cached, chain).manifest(ref(IMAGE)))).toMatchObject({ outcome: 'auth-denied' });
    // What Harbinger looks up for itself is another question than what it looks up for a Pod.
    expect(await failure(cached.manifest(ref(IMAGE)))).toMatchObject({ outcome: 'auth-denied' });
    expect(users(asked)).toEqual(['one', 'two', 'own', 'own']);
  });
});
