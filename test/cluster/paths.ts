import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

/**
 * The repository's root. Looked up from the working directory, since this code runs both from its source (jest) and from
 * a bundle under .out (make), where import.meta.url tells different stories.
 */
export function repoRoot(): string {
  for (let dir = process.cwd(); ; dir = dirname(dir)) {
    if (existsSync(join(dir, 'package.json')) && existsSync(join(dir, 'test/cluster/go/kube/go.mod'))) return dir;
    if (dir === dirname(dir)) throw new Error(`no Harbinger repository at or above ${process.cwd()}: run this inside a clone`);
  }
}

/** Folder of one cluster's state file and logs: `.out/cluster/NAME`. */
export const clusterDir = (name: string): string => join(repoRoot(), '.out/cluster', name);

/** State file of one cluster; everything another process needs in order to use or stop the cluster. */
export const statePath = (name: string): string => join(clusterDir(name), 'state.json');

/** Folder for tools built once per machine, outside the repository: HARBINGER_CACHE, else the user's cache folder. */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  if (env['HARBINGER_CACHE']) return resolve(env['HARBINGER_CACHE'], 'harbinger');
  return join(env['XDG_CACHE_HOME'] ? resolve(env['XDG_CACHE_HOME']) : join(homedir(), '.cache'), 'harbinger');
}
