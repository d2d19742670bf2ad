import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { followConfig } from '../../../src/config/follow.js';
import { createLog } from '../../../src/observe/log.js';
import { FakeClock } from '../kube/fake-clock.js';

const log = createLog({ level: 'silent', name: 'test' });
let directory: string;
beforeEach(async () => (directory = await mkdtemp(join(tmpdir(), 'harbinger-'))));
afterEach(() => rm(directory, { recursive: true }));

test('current follows the file, and every listener hears of a change', async () => {
  const path = join(directory, 'config.yaml');
  await writeFile(path, 'mode: Observe\n');
  const clock = new FakeClock();
  const settings = await followConfig(path, { clock, log });
  const heard: string[] = [];
  settings.onChange((config) => void heard.push(`a ${config.mode}`));
  settings.onChange((config) => void heard.push(`b ${config.mode}`));
  expect(settings.current.mode).toBe('Observe');
  await writeFile(path, 'mode: Off\n');
  await clock.advance(0);
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
  settings.stop();
  expect(settings.current.mode).toBe('Off');
  expect(heard).toEqual(['a Off', 'b Off']);
  expect(clock.pending).toBe(0);
});

test('without a file the defaults hold and nothing is watched', async () => {
  const clock = new FakeClock();
  const settings = await followConfig(undefined, { clock, log });
  expect(settings.current.mode).toBe('On');
  expect(clock.pending).toBe(0);
  settings.stop();
});

test('a bad file at start is an error, not a default', async () => {
  const path = join(directory, 'config.yaml');
  await writeFile(path, 'mode: Maybe\n');
  await expect(followConfig(path, { clock: new FakeClock(), log })).rejects.toThrow('mode: ');
});
