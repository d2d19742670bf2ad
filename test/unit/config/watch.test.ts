import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { watchConfig } from '../../../src/config/watch.js';
import { createLog } from '../../../src/observe/log.js';
import { FakeClock } from '../kube/fake-clock.js';

describe('watchConfig', () => {
  let directory: string;
  let path: string;
  let clock: FakeClock;
  let seen: HarbingerConfig[];
  let logged: string[];
  let watcher: { stop(): void };

  /** Lets one look at the file happen and waits until the next one is due. */
  const look = async (): Promise<void> => {
    await clock.advance(5_000);
    while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'harbinger-'));
    path = join(directory, 'config.yaml');
    await writeFile(path, 'mode: On\n');
    clock = new FakeClock();
    seen = [];
    logged = [];
    const log = createLog({ level: 'info', name: 'test', destination: { write: (line: string) => void logged.push(line) } });
    watcher = watchConfig({ path, current: await loadConfig(path), clock, log, onChange: (config) => void seen.push(config) });
    await look();
  });
  afterEach(async () => {
    watcher.stop();
    await rm(directory, { recursive: true });
  });

  test('an unchanged file and a changed comment are no change', async () => {
    await writeFile(path, '# why\nmode: On\n');
    await look();
    expect(seen).toEqual([]);
  });

  test('a change is handed on once', async () => {
    await writeFile(path, 'mode: Off\n');
    await look();
    await look();
    expect(seen.map((c) => c.mode)).toEqual(['Off']);
  });

  test('a change between load and the first look is not lost', async () => {
    const current = await loadConfig(path);
    await writeFile(path, 'mode: Observe\n');
    const late = new FakeClock();
    const got: string[] = [];
    const second = watchConfig({
      path,
      current,
      clock: late,
      log: createLog({ level: 'silent', name: 'test' }),
      onChange: (c) => void got.push(c.mode),
    });
    await late.advance(0);
    while (late.pending === 0) await new Promise((resolve) => setImmediate(resolve));
    second.stop();
    expect(got).toEqual(['Observe']);
  });

  test('a bad or missing file keeps the last good one and is logged once', async () => {
    await writeFile(path, 'mode: Maybe\n');
    await look();
    await look();
    await rm(path);
    await look();
    await look();
    expect(seen).toEqual([]);
    expect(logged.filter((line) => line.includes('not taken over'))).toHaveLength(2);
    await writeFile(path, 'mode: Observe\n');
    await look();
    expect(seen.map((c) => c.mode)).toEqual(['Observe']);
  });

  test('nothing happens after stop', async () => {
    watcher.stop();
    await writeFile(path, 'mode: Off\n');
    await clock.advance(60_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});
