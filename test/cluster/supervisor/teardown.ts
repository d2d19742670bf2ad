import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cleanUpCluster } from '../network/index.js';
import { isAlive, signalIfOurs } from '../process-identity.js';
import { repoRoot } from '../paths.js';
import { sleep } from '../until.js';
import { MEMORY_DIR_PREFIX, type ClusterState } from './protocol.js';

/**
 * Ends all children of a cluster (SIGKILL: test clusters are crash-only), newest first, then removes namespaces and the
 * run folder. Used by a living supervisor for its own children and by the next start for those of a dead one; every
 * process is compared by pid and start time first, so only our own are ever hit. Returns what could not be removed.
 */
export async function tearDown(state: ClusterState): Promise<string[]> {
  const leftovers: string[] = [];
  const children = [...state.children].reverse();
  for (const child of children) signalIfOurs(child, 'SIGKILL', { group: true });
  const deadline = performance.now() + 30_000;
  while (children.some(isAlive) && performance.now() < deadline) await sleep(20);
  leftovers.push(...children.filter(isAlive).map((c) => `process ${c.pid} (${c.name})`));
  const network = state.info['network'];
  if (typeof network === 'string') leftovers.push(...(await cleanUpCluster(network)));
  leftovers.push(...removeRunDir(state.runDir));
  const memoryDir = state.info['memoryDir'];
  if (typeof memoryDir === 'string' && memoryDir.startsWith(MEMORY_DIR_PREFIX))
    rmSync(memoryDir, { recursive: true, force: true });
  return leftovers;
}

/** State files of clusters in this repository whose supervisor has died. */
export function staleStates(): { path: string; state: ClusterState }[] {
  const dir = join(repoRoot(), '.out/cluster');
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .map((name) => join(dir, name, 'state.json'))
    .flatMap((path) => {
      const state = readState(path);
      return state && !isAlive(state.supervisor) ? [{ path, state }] : [];
    });
}

/** Reads a state file; undefined when it does not exist. */
export function readState(path: string): ClusterState | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ClusterState;
  } catch {
    return undefined;
  }
}

// A mount that is still below the folder would let the removal run into foreign files: unmount first, else leave it.
function removeRunDir(dir: string): string[] {
  for (const mount of mountsBelow(dir)) spawnSync('umount', ['-l', mount]);
  const left = mountsBelow(dir);
  if (left.length > 0) return left.map((mount) => `mount ${mount}`);
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  return [];
}

function mountsBelow(dir: string): string[] {
  if (process.platform !== 'linux') return [];
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[1] ?? '').replaceAll('\\040', ' '))
    .filter((mount) => mount.startsWith(`${dir}/`))
    .sort((a, b) => b.length - a.length);
}
