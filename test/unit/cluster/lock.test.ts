import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { leasePorts, leaseSubnet } from '../../cluster/leases.js';
import { withFileLock } from '../../cluster/lock.js';
import { identityOf, isAlive, signalIfOurs } from '../../cluster/process-identity.js';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'harbinger-lock-test-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const self = identityOf(process.pid);
// A pid that lives with a start time that it does not have: what a recycled pid looks like.
const recycled = { pid: process.pid, startTime: '1' };

describe('process identity', () => {
  test('a recycled pid is not the process it was', () => {
    expect([isAlive(self), isAlive(recycled)]).toEqual([true, false]);
  });

  test('a signal never reaches a recycled pid', () => {
    expect(signalIfOurs(recycled, 'SIGKILL')).toBe(false);
  });

  test('an absent process has no identity', () => {
    expect(() => identityOf(2 ** 22 + 1)).toThrow(/does not exist/);
  });
});

describe('withFileLock', () => {
  test('work under one lock never overlaps, and the lock is gone afterwards', async () => {
    const path = join(dir, 'exclusive');
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await new Promise((done) => setImmediate(done));
      inside--;
    };
    await Promise.all([1, 2, 3].map(() => withFileLock(path, work)));
    expect(most).toBe(1);
    expect(existsSync(path)).toBe(false);
  });

  test('a lock whose holder has died is taken over', async () => {
    const path = join(dir, 'stale');
    writeFileSync(path, JSON.stringify(recycled));
    expect(await withFileLock(path, () => 'done')).toBe('done');
  });

  test('the lock is released when the work fails', async () => {
    const path = join(dir, 'failing');
    await expect(withFileLock(path, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(existsSync(path)).toBe(false);
  });
});

describe('leases', () => {
  test('two live holders never get the same port or subnet', async () => {
    const ports = (await Promise.all([leasePorts(5, self, dir), leasePorts(5, self, dir)])).flat();
    expect(new Set(ports).size).toBe(10);
    const [a, b] = [await leaseSubnet(self, dir), await leaseSubnet(self, dir)];
    expect(a.cidr).not.toBe(b.cidr);
  });

  test('what a dead holder leased is free again', async () => {
    const lost = await leaseSubnet(recycled, dir);
    expect((await leaseSubnet(self, dir)).cidr).toBe(lost.cidr);
  });
});
