import { describe, expect, test } from '@jest/globals';
import type { ManifestFact, RegistryPort } from '../../../src/images/registry-port.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { Reference } from '../../../src/images/reference.js';
import { systemClock } from '../../../src/observe/clock.js';
import { createLog } from '../../../src/observe/log.js';
import type { Question } from '../../../src/rewrite/decide.js';
import { Answers } from '../../../src/webhook/answers.js';
import { MemoryRegistry, bodyDigest, digestOf, manifestBody } from '../images/support.js';
import { makePolicy } from '../rewrite/builders.js';

const log = createLog({ level: 'silent', name: 'test' });

function question(repository: string, key = repository): Question {
  return {
    key,
    reference: { registry: 'r.example', repository, tag: 'v1' },
    policy: makePolicy('p'),
    chain: [undefined],
  };
}

/** Answers from a port whose manifest call is given. */
function make(manifest: (reference: Reference) => Promise<ManifestFact>): { answers: Answers; calls: string[] } {
  const calls: string[] = [];
  const registry: RegistryPort = {
    manifest: (reference) => {
      calls.push(`${reference.repository}:${reference.tag ?? reference.digest ?? ''}`);
      return manifest(reference);
    },
    config: () => Promise.reject(new Error('not asked here')),
    referrers: () => Promise.reject(new Error('not asked here')),
  };
  return { answers: new Answers({ registry: () => registry, clock: systemClock, log }), calls };
}

describe('Answers', () => {
  test.each<[string, Error, string]>([
    ['a registry that is down', new RegistryError('down', { outcome: 'registry-error', host: 'r.example' }), 'registry-error'],
    [
      'a registry that refuses',
      new RegistryError('401', { outcome: 'auth-denied', host: 'r.example', status: 401 }),
      'auth-denied',
    ],
    ['an open circuit', new RegistryError('open', { outcome: 'circuit-open', host: 'r.example' }), 'circuit-open'],
    ['a defect of ours', new TypeError('undefined is not a function'), 'registry-error'],
  ])('%s is an outcome, never a throw', async (_, error, want) => {
    const { answers } = make(() => Promise.reject(error));
    const found = await answers.ask([question('app')], 1_000);
    expect(found.get('app')).toMatchObject({ outcome: want });
    expect(found.get('app')?.message).toBeTruthy();
  });

  test('many Pods with one question make one call, and the next ones ask anew', async () => {
    const held: { fail?: (e: Error) => void } = {};
    const { answers, calls } = make(() => new Promise((_, reject) => (held.fail = reject)));
    const all = Array.from({ length: 100 }, () => answers.ask([question('app')], 1_000));
    held.fail?.(new RegistryError('down', { outcome: 'registry-error', host: 'r.example' }));
    const found = await Promise.all(all);
    expect([calls.length, new Set(found.map((f) => f.get('app')?.outcome))]).toEqual([1, new Set(['registry-error'])]);
    void answers.ask([question('app')], 1);
    expect(calls).toHaveLength(2);
  });

  test('an answer is given again for a second, to whoever asks the same of the same registries', async () => {
    let now = 1_000_000;
    const clock = { ...systemClock, now: () => now };
    let registry = new MemoryRegistry().set('r.example/app:v1', manifestBody({ name: 'app' }));
    const answers = new Answers({ registry: () => registry, clock, log });
    const outcome = async (q = question('app')): Promise<string | undefined> =>
      (await answers.ask([q], 1_000)).get(q.key)?.outcome;
    const calls = async (act: () => Promise<unknown>): Promise<boolean> => {
      const before = registry.asked.length;
      await act();
      return registry.asked.length > before;
    };
    expect(await outcome()).toBe('variant-missing');
    now += 999;
    expect(await calls(outcome)).toBe(false);
    expect(await calls(() => outcome(question('app', 'another policy')))).toBe(true);
    now += 1;
    expect(await calls(outcome)).toBe(true);
    now -= 10_000;
    expect(await calls(outcome)).toBe(true);
    registry = new MemoryRegistry();
    expect(await outcome()).toBe('registry-error');
  });

  test('a question that a Pod has waited its whole budget for is not waited for again, until it is asked anew', async () => {
    let now = 1_000_000;
    const clock = { now: () => now, setTimeout: () => ({ cancel: () => undefined }) };
    const registry = new MemoryRegistry().set('r.example/app:v1', manifestBody({ name: 'app' }));
    const ends: (() => void)[] = [];
    const hanging: RegistryPort = {
      manifest: async (reference) => {
        await new Promise<void>((end) => ends.push(end));
        return registry.manifest(reference);
      },
      config: (reference, digest) => registry.config(reference, digest),
      referrers: (reference, digest) => registry.referrers(reference, digest),
    };
    const answers = new Answers({ registry: () => hanging, clock, log });
    const first = answers.ask([question('app')], 1_000);
    now += 999;
    const second = answers.ask([question('app')], 1_000);
    now += 1;
    expect(await answers.ask([question('app')], 1_000)).toEqual(new Map());
    const answered = Promise.all([first, second]);
    let done = false;
    void answered.then(() => (done = true));
    while (!done) {
      for (const end of ends.splice(0)) end();
      await new Promise(setImmediate);
    }
    expect((await answered).map((found) => found.get('app')?.outcome)).toEqual(['variant-missing', 'variant-missing']);
    expect((await answers.ask([question('app')], 1_000)).get('app')?.outcome).toBe('variant-missing');
  });

  test('what does not come in time is missing, and what came is there', async () => {
    const { answers } = make(({ repository }) =>
      repository === 'slow'
        ? new Promise(() => undefined)
        : Promise.reject(new RegistryError('x', { outcome: 'auth-denied', host: 'h' })),
    );
    const found = await answers.ask([question('slow'), question('fast')], 30);
    expect([...found.keys()]).toEqual(['fast']);
  });

  test('a variant in quarantine is as good as absent, with a text that says why; Pods of other namespaces get it', async () => {
    const registry = new MemoryRegistry();
    const source = manifestBody({ name: 'app' });
    const annotations = { 'harbinger.dev/source-digest': bodyDigest(source) };
    const variant = bodyDigest(manifestBody({ name: 'variant', marked: 2, annotations }));
    registry.set('r.example/app:v1', source).setConfig(digestOf('config app'), 'linux/amd64');
    registry.set('r.example/app:v1-esgz', manifestBody({ name: 'variant', marked: 2, annotations }));
    registry.setConfig(digestOf('config variant'), 'linux/amd64');
    const answers = new Answers({ registry: () => registry, clock: systemClock, log });
    const messageOf = (image: string): string | undefined => (image === variant ? 'nodes could not pull it' : undefined);
    const [free, held] = await Promise.all([
      answers.ask([question('app')], 1_000),
      answers.ask([question('app')], 1_000, { key: 'team', messageOf }),
    ]);
    expect(free.get('app')).toMatchObject({ outcome: 'accelerated', image: `r.example/app@${variant}` });
    expect(held.get('app')).toMatchObject({
      outcome: 'variant-missing',
      message: expect.stringContaining('nodes could not pull it'),
    });
  });
});
