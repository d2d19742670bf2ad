import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';

/**
 * What stands in the work tree: the commit, with a short hash of the changes to it where there are any (`1f43fa6…+9c1d2e3f`). Reports of two
 * revisions say nothing together. `unknown` where there is no git or no repository. Files that git does not know are not part of it.
 */
export async function revisionOf(dir: string): Promise<string> {
  const git = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('git', args, { cwd: dir, maxBuffer: 256 << 20 })).stdout;
  try {
    const commit = (await git('rev-parse', 'HEAD')).trim();
    const changes = await git('diff', 'HEAD');
    return changes === '' ? commit : `${commit}+${createHash('sha256').update(changes).digest('hex').slice(0, 8)}`;
  } catch {
    return 'unknown';
  }
}
