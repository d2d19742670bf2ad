import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../cluster/until.js';
import { ExecCredentials } from '../../../src/registry/exec-credentials.js';
import { OwnCredentials } from '../../../src/registry/own-credentials.js';
import type { Plugin, PluginResult } from '../../../src/registry/plugin.js';
import { runPlugin } from '../../../src/registry/plugin.js';
import { credentialsFor } from '../../../src/images/pull-secret.js';
import type { RegistryConfig } from '../../../src/config/schema.js';
import type { Reference } from '../../../src/images/reference.js';
import { manifestBody } from '../images/support.js';
import { RegistryDouble, TestClock, closeClients, failure, listed, ref, silent, spokenLog, stackOf } from './support.js';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'plugin-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** A shell script in the place of a plugin. */
async function script(text: string, more: Partial<Plugin> = {}): Promise<Plugin> {
  const command = join(directory, 'plugin');
  await writeFile(command, `#!/bin/sh\n${text}\n`);
  await chmod(command, 0o755);
  return { command, args: [], env: {}, timeoutSeconds: 10, ...more };
}

const response = (more: object = {}): string =>
  JSON.stringify({
    kind: 'CredentialProviderResponse',
    apiVersion: 'credentialprovider.kubelet.k8s.io/v1',
    cacheKeyType: 'Registry',
    cacheDuration: '6h0m0s',
    auth: { 'r.example.com': { username: 'u', password: 'hunter2' } },
    ...more,
  });

describe('a plugin that is run', () => {
  test('gets the request of the protocol and the environment of its entry', async () => {
    const plugin = await script('cat > "$OUT"; printf %s "$ANSWER"', {
      env: { OUT: join(directory, 'request'), ANSWER: response() },
    });
    const keyring = await new ExecCredentials(new TestClock()).get(plugin, ref('r.example.com/team/a:1'));
    expect(keyring.entries.map(({ credential }) => credential)).toEqual([{ username: 'u', password: 'hunter2' }]);
    expect(JSON.parse(await readFile(join(directory, 'request'), 'utf8'))).toEqual({
      apiVersion: 'credentialprovider.kubelet.k8s.io/v1',
      kind: 'CredentialProviderRequest',
      image: 'r.example.com/team/a',
    });
  });

  test.each([
    ['that fails', 'echo hunter2 >&2; exit 3', /ended with exit code 3/],
    ['that is killed', 'kill -9 $$', /ended with signal SIGKILL/],
    ['that floods', 'cat /dev/zero', /wrote more than 64 KiB and was killed/],
  ])('%s is a problem that quotes nothing of it', async (_, text, problem) => {
    const result = await runPlugin(await script(text), '{}');
    expect(result).toMatchObject({ ok: false, problem: expect.stringMatching(problem) });
    expect(JSON.stringify(result)).not.toContain('hunter2');
  });

  test('that hangs is killed with all that it started', async () => {
    const pids = join(directory, 'pids');
    const plugin = await script(`sleep 600 & echo $! > ${pids}; wait`, { timeoutSeconds: 1 });
    expect(await runPlugin(plugin, '{}')).toEqual({ ok: false, problem: 'it did not end within 1 s and was killed' });
    const pid = (await readFile(pids, 'utf8')).trim();
    await until(
      'the child of the plugin to be gone',
      async () => {
        const state = await readFile(`/proc/${pid}/stat`, 'utf8').then(
          (text) => text.split(' ')[2],
          () => 'gone',
        );
        return state === 'gone' || state === 'Z';
      },
      { timeoutMs: 10_000 },
    );
  });

  test('that is not there is a problem', async () => {
    const plugin = { command: '/no/such/plugin', args: [], env: {}, timeoutSeconds: 1 };
    expect(await runPlugin(plugin, '{}')).toEqual({ ok: false, problem: 'it cannot be started (ENOENT)' });
  });
});

/** Plugins without processes: what they answer, and for which images they were run. */
function scripted(answer: (image: string) => PluginResult | Promise<PluginResult>) {
  const clock = new TestClock();
  const asked: string[] = [];
  let running = 0;
  let most = 0;
  const exec = new ExecCredentials(clock, async (_, input) => {
    const { image } = JSON.parse(input) as { image: string };
    asked.push(image);
    running += 1;
    most = Math.max(most, running);
    await new Promise(setImmediate);
    running -= 1;
    return answer(image);
  });
  const plugin: Plugin = { command: 'p', args: [], env: {}, timeoutSeconds: 1 };
  const get = (image: string, renew = false) => exec.get(plugin, ref(image), renew);
  return { clock, asked, get, most: () => most };
}
const ok = (more: object = {}): PluginResult => ({ ok: true, stdout: response(more) });

describe('answers are kept', () => {
  test.each([
    ['Image', ['r.example.com/a', 'r.example.com/b', 'other.example.com/a']],
    ['Registry', ['r.example.com/a', 'other.example.com/a']],
    ['Global', ['r.example.com/a']],
  ])('for the %s', async (cacheKeyType, expected) => {
    const { asked, get } = scripted(() => ok({ cacheKeyType }));
    for (const image of ['r.example.com/a:1', 'r.example.com/a:2', 'r.example.com/b:1', 'other.example.com/a:1'])
      await get(image);
    expect(asked).toEqual(expected);
  });

  test.each([
    ['6h0m0s', 6 * 3_600_000],
    ['1m30s', 90_000],
    ['1.5m', 90_000],
    ['30000ms', 30_000],
    ['0s', 10_000],
    ['0', 10_000],
    [undefined, 300_000],
    ['1000h', 86_400_000],
  ])('for a cacheDuration of %s', async (cacheDuration, keptMs) => {
    const { clock, asked, get } = scripted(() => ok({ cacheDuration }));
    await get('r.example.com/a:1');
    clock.advance(keptMs);
    await get('r.example.com/a:1');
    expect(asked).toHaveLength(1);
    clock.advance(1);
    await get('r.example.com/a:1');
    expect(asked).toHaveLength(2);
  });

  test('a thousand that ask at once run one process', async () => {
    const { asked, get } = scripted(() => ok());
    await Promise.all(Array.from({ length: 1000 }, (_, i) => get(`r.example.com/a${i}:1`)));
    expect(asked).toHaveLength(1);
  });

  test('where each image has its own they run one after the other', async () => {
    const { asked, get, most } = scripted(() => ok({ cacheKeyType: 'Image' }));
    await Promise.all(Array.from({ length: 50 }, (_, i) => get(`r.example.com/a${i % 10}:1`)));
    expect(asked).toHaveLength(10);
    expect(most()).toBe(1);
  });

  test('a failure is kept shortly, for all images', async () => {
    const { clock, asked, get } = scripted(() => ({ ok: false, problem: 'it broke' }));
    const found = await Promise.all(Array.from({ length: 20 }, (_, i) => get(`r.example.com/a${i}:1`)));
    expect(found.every(({ problems }) => problems[0] === 'credential provider p: it broke')).toBe(true);
    expect(asked).toHaveLength(1);
    clock.advance(30_001);
    await get('r.example.com/a:1');
    expect(asked).toHaveLength(2);
  });

  test('a denial renews them, at most once a minute', async () => {
    const { clock, asked, get } = scripted(() => ok());
    await get('r.example.com/a:1');
    await get('r.example.com/a:1', true);
    expect(asked).toHaveLength(1);
    clock.advance(60_000);
    await get('r.example.com/a:1', true);
    await get('r.example.com/b:1', true);
    expect(asked).toHaveLength(2);
  });
});

describe('waiting for a plugin', () => {
  /** A plugin whose runs end when told to, and time that passes when told to. */
  function held(more: object = {}) {
    const timers: (() => void)[] = [];
    const clock = Object.assign(new TestClock(), {
      setTimeout: (fn: () => void) => ({ cancel: () => undefined, at: timers.push(fn) }),
    });
    const runs: { image: string; end: () => void }[] = [];
    const run = (_: Plugin, input: string): Promise<PluginResult> =>
      new Promise((resolve) => {
        runs.push({ image: (JSON.parse(input) as { image: string }).image, end: () => resolve(ok(more)) });
      });
    const exec = new ExecCredentials(clock, run);
    const plugin: Plugin = { command: '/p', args: [], env: {}, timeoutSeconds: 1 };
    const pass = (): void => {
      for (const fire of timers.splice(0)) fire();
    };
    return { exec, plugin, clock, runs, pass, get: (image: string) => exec.get(plugin, ref(image)) };
  }

  test('ends after the time of one run, with an outcome that is not remembered, and runs nothing for who left', async () => {
    const { runs, pass, get } = held({ cacheKeyType: 'Image' });
    const first = get('r.example.com/a:1');
    const behind = get('r.example.com/b:1');
    pass();
    for (const waiting of [first, behind])
      expect(await failure(waiting)).toMatchObject({
        outcome: 'budget-exceeded',
        message: expect.stringContaining('credential provider /p has not answered yet'),
      });
    runs[0]?.end();
    await new Promise(setImmediate);
    expect(runs.map(({ image }) => image)).toEqual(['r.example.com/a']);
    // The run went on: its answer serves the next.
    expect((await get('r.example.com/a:1')).entries).toHaveLength(1);
  });

  test('is for so many at once, and the others are told at once', async () => {
    const { runs, get } = held();
    const all = Array.from({ length: 2001 }, (_, i) => get(`r.example.com/a${i}:1`));
    expect(await failure(all.at(-1)!)).toMatchObject({ outcome: 'budget-exceeded' });
    runs[0]?.end();
    expect((await Promise.all(all.slice(0, -1))).every(({ entries }) => entries.length === 1)).toBe(true);
  });

  test('takes no turn that an image of another registry could have', async () => {
    const { exec, plugin, runs } = held();
    const other = await RegistryDouble.start((_, response) =>
      response.writeHead(200).end(JSON.stringify(manifestBody({ name: 'x' }))),
    );
    try {
      const slow = listed('r.example.com', { credential: { exec: plugin, forPods: true } });
      const get = async ({ host }: RegistryConfig, reference: Reference): Promise<object> => {
        if (host === slow.host) await exec.get(plugin, reference);
        return {};
      };
      const { port } = stackOf({
        registries: [slow, listed(other.host)],
        own: { get },
        slots: { total: 2, perHost: 2 },
        resolve: () => Promise.resolve([]),
      });
      const waiting = Array.from({ length: 10 }, (_, i) => port.manifest(ref(`r.example.com/a:${i}`)));
      await new Promise(setImmediate);
      expect(await port.manifest(ref(`${other.host}/a:1`))).toMatchObject({ kind: 'manifest' });
      runs[0]?.end();
      await Promise.allSettled(waiting);
      // The twin: they did wait for the plugin.
      expect(runs).toHaveLength(1);
    } finally {
      await closeClients();
      await other.stop();
    }
  });
});

describe('what a plugin answers', () => {
  test.each([
    ['globs as in kubelets', { '*.dkr.ecr.*.amazonaws.com': 'ecr', '*.io': 'io' }, '1.dkr.ecr.eu-1.amazonaws.com/a:1', 'ecr'],
    ['paths', { 'r.example.com/team': 'team', 'r.example.com': 'all' }, 'r.example.com/team/a:1', 'team'],
    ['ports', { 'r.example.com:5000': 'port' }, 'r.example.com/a:1', undefined],
    ['no credentials', {}, 'r.example.com/a:1', undefined],
  ])('may hold %s', async (_, users, image, expected) => {
    const auth = Object.fromEntries(Object.entries(users).map(([key, username]) => [key, { username, password: 'p' }]));
    const { get } = scripted(() => ok({ auth }));
    expect(credentialsFor(ref(image), [await get(image)])[0]?.username).toBe(expected);
  });

  test.each<[string, string, RegExp]>([
    ['no JSON', 'hunter2', /not a JSON object/],
    ['another kind', response({ kind: 'ExecCredential' }), /not a CredentialProviderResponse/],
    [
      'an old version',
      response({ apiVersion: 'credentialprovider.kubelet.k8s.io/v1alpha1' }),
      /not a CredentialProviderResponse of .*v1/,
    ],
    ['an unknown cacheKeyType', response({ cacheKeyType: 'hunter2' }), /cacheKeyType/],
    ['a bad cacheDuration', response({ cacheDuration: 'hunter2' }), /cacheDuration/],
    ['a negative cacheDuration', response({ cacheDuration: '-5s' }), /cacheDuration/],
  ])('%s is told without quoting it', async (_, stdout, problem) => {
    const { problems } = await scripted(() => ({ ok: true, stdout })).get('r.example.com/a:1');
    expect(problems.join()).toMatch(problem);
    expect(problems.join()).not.toContain('hunter2');
  });
});

test('a plugin that fails leaves the registry to be asked without a credential, and says why in the log once', async () => {
  const exec = await script('echo hunter2; exit 1');
  const registry = listed('r.example.com', { credential: { exec, forPods: true } });
  const { log, lines } = spokenLog();
  const own = new OwnCredentials(log, new TestClock());
  for (const name of ['a', 'b'])
    expect(await own.get(registry, ref(`r.example.com/${name}:1`))).toEqual({
      problem: expect.stringMatching(/^credential provider .*plugin: it ended with exit code 1/),
    });
  expect(lines).toHaveLength(1);
  expect(JSON.stringify(lines)).not.toContain('hunter2');
  // The twin.
  const good = new OwnCredentials(silent, new TestClock());
  await script(`printf %s '${response()}'`);
  expect(await good.get(registry, ref('r.example.com/a:1'))).toEqual({ credential: { username: 'u', password: 'hunter2' } });
});
