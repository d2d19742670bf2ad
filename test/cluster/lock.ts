import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { identityOf, isAlive, type ProcessIdentity } from './process-identity.js';
import { sleep } from './until.js';

/**
 * Runs `work` while holding an exclusive lock file, across processes. A lock whose holder has died is taken over.
 * `onWait` is called once, with the holder's pid, when the lock is held by a live process.
 */
export async function withFileLock<T>(path: string, work: () => T | Promise<T>, onWait?: (pid: number) => void): Promise<T> {
  mkdirSync(dirname(path), { recursive: true });
  const mine = JSON.stringify(identityOf(process.pid));
  for (let waited = false; !tryCreate(path, mine);) {
    const holder = readHolder(path);
    if (holder && !isAlive(holder)) {
      breakStale(path, holder);
      continue;
    }
    if (!waited && holder) onWait?.(holder.pid);
    waited = true;
    await sleep(50);
  }
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

function tryCreate(path: string, content: string): boolean {
  try {
    writeFileSync(path, content, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readHolder(path: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ProcessIdentity;
  } catch {
    return undefined; // released in between, or not written out yet
  }
}

// Two waiters may both see the stale lock; the slower one may then hold a *fresh* lock in its hands and has to put it back.
function breakStale(path: string, stale: ProcessIdentity): void {
  const aside = `${path}.${process.pid}.stale`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  const moved = readHolder(aside);
  if (moved && (moved.pid !== stale.pid || moved.startTime !== stale.startTime)) renameSync(aside, path);
  else rmSync(aside, { force: true });
}
