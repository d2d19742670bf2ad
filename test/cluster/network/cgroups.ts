import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MOUNT = '/sys/fs/cgroup';

/** Whether the kernel's unified hierarchy is the one in use. */
export const isCgroupV2 = (): boolean => existsSync(join(MOUNT, 'cgroup.controllers'));

/** The mounted hierarchies: one on v2, one a controller on v1. */
function hierarchies(): string[] {
  if (isCgroupV2()) return [MOUNT];
  return readdirSync(MOUNT)
    .map((name) => join(MOUNT, name))
    .filter((path) => existsSync(join(path, 'cgroup.procs')));
}

/** Makes the group that a kubelet takes for the root of its Pods' groups. */
export function makeCgroup(name: string): void {
  for (const hierarchy of hierarchies()) {
    const group = join(hierarchy, name);
    mkdirSync(group, { recursive: true });
    if (isCgroupV2()) {
      const controllers = readFileSync(join(MOUNT, 'cgroup.controllers'), 'utf8').trim().split(' ');
      const enable = controllers.map((controller) => `+${controller}`).join(' ');
      for (const path of [MOUNT, group]) writeFileSync(join(path, 'cgroup.subtree_control'), enable);
    }
    // A v1 cpuset starts empty and takes no process until it has processors and memory.
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      if (!isCgroupV2() && existsSync(join(group, file)))
        writeFileSync(join(group, file), readFileSync(join(hierarchy, file), 'utf8').trim());
    }
  }
}

/** Processes in the groups of this name and all groups below them. */
export function cgroupProcesses(name: string): number[] {
  const pids = groupsOf(name).flatMap((group) => {
    try {
      return readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);
    } catch {
      return [];
    }
  });
  return [...new Set(pids)];
}

/** Removes the groups of this name; returns those that would not go. */
export function removeCgroup(name: string): string[] {
  return groupsOf(name).filter((group) => {
    try {
      rmdirSync(group);
      return false;
    } catch {
      return existsSync(group);
    }
  });
}

/** Names of groups directly below the root that begin with `prefix`. */
export function cgroupsNamed(prefix: string): string[] {
  if (!existsSync(MOUNT)) return [];
  return [...new Set(hierarchies().flatMap((hierarchy) => readdirSync(hierarchy).filter((name) => name.startsWith(prefix))))];
}

// Deepest first, so that each can be removed when its turn comes.
function groupsOf(name: string): string[] {
  return hierarchies().flatMap((hierarchy) => descend(join(hierarchy, name)));
}

function descend(group: string): string[] {
  if (!existsSync(group)) return [];
  const below = readdirSync(group)
    .map((name) => join(group, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  return [...below.flatMap(descend), group];
}
