import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { createLog } from '../../../src/observe/log.js';
import { OwnCredentials } from '../../../src/registry/own-credentials.js';
import { retryAfter } from '../../../src/registry/status.js';
import { TestClock, listed, ref } from './support.js';

describe('how long a registry asks to be left alone', () => {
  const date = 'Tue, 01 Dec 2026 10:00:00 GMT';
  test.each<[string, Record<string, string>, number | undefined]>([
    ['seconds', { 'retry-after': '43' }, 43_000],
    ['a date, relative to the clock of the server', { 'retry-after': 'Tue, 01 Dec 2026 10:00:30 GMT', date }, 30_000],
    ['a date in the past', { 'retry-after': 'Tue, 01 Dec 2026 09:00:00 GMT', date }, 0],
    ['a date without a clock to compare it with', { 'retry-after': 'Tue, 01 Dec 2026 10:00:30 GMT' }, undefined],
    ['the epoch seconds of Docker Hub', { 'x-retry-after': String(Date.parse(date) / 1000 + 60), date }, 60_000],
    ['nothing', { date }, undefined],
    ['nonsense', { 'retry-after': 'soon', date }, undefined],
    ['a negative number', { 'retry-after': '-5', date: '' }, undefined],
  ])('%s', (_, headers, expected) => {
    expect(retryAfter({ headers })).toBe(expected);
  });
});

describe("Harbinger's own credential", () => {
  const entry = (user: string): string => JSON.stringify({ auths: { 'r.example.com': { username: user, password: 'p' } } });

  test('comes from the file of the registry, and from the new one after it was replaced', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'own-'));
    const file = join(directory, 'config.json');
    const registry = listed('r.example.com', { credential: { dockerConfigFile: file, forPods: true } });
    const clock = new TestClock();
    const own = new OwnCredentials(createLog({ level: 'silent', name: 'test' }), clock);
    const user = async (): Promise<string | undefined> =>
      (await own.get(registry, ref('r.example.com/a:1'))).credential?.username;
    try {
      expect(await user()).toBeUndefined();
      await writeFile(file, entry('first'));
      clock.advance(30_000);
      expect(await user()).toBe('first');
      await writeFile(file, entry('second'));
      clock.advance(29_999);
      expect(await user()).toBe('first');
      clock.advance(1);
      expect(await user()).toBe('second');
      expect(await own.get(listed('r.example.com'), ref('r.example.com/a:1'))).toEqual({});
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
