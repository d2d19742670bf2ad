import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../exec.js';
import { sleep } from '../until.js';
import { cgroupProcesses, cgroupsNamed, removeCgroup } from './cgroups.js';
import { clusterPrefix, interfaceName, RUN_ROOT } from './names.js';
import { restoreSysctls } from './sysctls.js';

const NETNS = '/run/netns';

/**
 * Ends what runs in the namespaces and cgroups of a cluster and removes its mounts, namespaces, bridge and routes. Idempotent; works from the
 * name alone, also after the cluster's owner was killed. Returns what could not be removed.
 */
export async function cleanUpCluster(cluster: string): Promise<string[]> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return [];
  const prefix = clusterPrefix(cluster);
  const found = [NETNS, RUN_ROOT].flatMap((dir) => list(dir).filter((name) => name.startsWith(prefix)));
  const left = await cleanUpMembers([...new Set([...found, ...cgroupsNamed(prefix)])]);
  const bridge = interfaceName('bridge', cluster);
  if (existsSync(`/sys/class/net/${bridge}`))
    await run('ip', ['link', 'del', bridge]).catch((error: Error) => left.push(error.message));
  return left;
}

/** The same for members, by the common name of their namespace, cgroup and run folder. */
export async function cleanUpMembers(names: readonly string[]): Promise<string[]> {
  const left: string[] = [];
  for (const name of names) left.push(...(await endProcesses(name)));
  for (const name of names) {
    const dir = join(RUN_ROOT, name);
    for (const mount of mountsBelow(dir)) await run('umount', ['-l', mount]).catch((error: Error) => left.push(error.message));
    if (mountsBelow(dir).length === 0) rmSync(dir, { recursive: true, force: true });
    left.push(...(await removeGroups(name)));
    if (existsSync(join(NETNS, name))) await run('ip', ['netns', 'del', name]).catch((error: Error) => left.push(error.message));
  }
  removeLogLinks(names);
  return [...left, ...restoreSysctls()];
}

// Daemons first and again: while containerd lives it may start another shim, and a shim another process.
async function endProcesses(name: string): Promise<string[]> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const pids = [...namespaceProcesses(name), ...cgroupProcesses(name)];
    if (pids.length === 0) return [];
    for (const pid of pids) kill(pid);
    if (performance.now() > deadline) return pids.map((pid) => `process ${pid} of ${name}`);
    await sleep(50);
  }
}

// A group is busy for a moment after its last process has gone.
async function removeGroups(name: string): Promise<string[]> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const left = removeCgroup(name);
    if (left.length === 0 || performance.now() > deadline) return left.map((group) => `cgroup ${group}`);
    await sleep(50);
  }
}

function namespaceProcesses(name: string): number[] {
  const inode = statSync(join(NETNS, name), { throwIfNoEntry: false })?.ino;
  if (inode === undefined) return [];
  return list('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => pid !== process.pid && namespaceOf(pid) === `net:[${inode}]`);
}

function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has gone by itself.
  }
}

function mountsBelow(dir: string): string[] {
  return readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path === dir || path.startsWith(`${dir}/`))
    .reverse();
}

// The kubelet links each container's log here, wherever its own folders are.
function removeLogLinks(names: readonly string[]): void {
  const dir = '/var/log/containers';
  for (const file of list(dir)) {
    const target = linkTarget(join(dir, file));
    if (target && names.some((name) => target.startsWith(`${RUN_ROOT}/${name}/`))) rmSync(join(dir, file), { force: true });
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function list(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir) : [];
}
