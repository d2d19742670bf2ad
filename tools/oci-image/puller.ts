import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../test/cluster/exec.js';
import { cacheRoot, repoRoot } from '../../test/cluster/paths.js';

/** Path of the static puller program, built with Go unless a build of the same source is in the tool cache. */
export async function pullerBinary(): Promise<string> {
  const source = join(repoRoot(), 'puller');
  const files = readdirSync(source).filter((name) => name === 'go.mod' || (name.endsWith('.go') && !name.endsWith('_test.go')));
  const hash = createHash('sha256');
  for (const file of files.sort()) hash.update(file).update(readFileSync(join(source, file)));
  const dir = join(cacheRoot(), 'tools', `puller-${hash.digest('hex').slice(0, 16)}`);
  const binary = join(dir, 'puller');
  if (existsSync(binary)) return binary;
  mkdirSync(dir, { recursive: true });
  // Built beside and renamed: two suites that start together must not see half a program.
  const partial = `${binary}.${process.pid}`;
  await run('go', ['build', '-trimpath', '-ldflags', '-s -w', '-o', partial, '.'], { cwd: source, env: { CGO_ENABLED: '0' } });
  renameSync(partial, binary);
  return binary;
}
