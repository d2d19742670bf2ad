import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SOURCE = resolve('puller');

/** Path of the static puller program, built with Go unless a build of the same source is in the tool cache. */
export async function pullerBinary(): Promise<string> {
  const hash = createHash('sha256');
  for (const file of readdirSync(SOURCE).filter((name) => /^go\.mod$|(?<!_test)\.go$/.test(name)).sort()) hash.update(file).update(readFileSync(join(SOURCE, file)));
  const cache = process.env.HARBINGER_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'harbinger');
  const dir = join(cache, 'tools', `puller-${hash.digest('hex').slice(0, 16)}`);
  const binary = join(dir, 'puller');
  if (existsSync(binary)) return binary;
  mkdirSync(dir, { recursive: true });
  // Built beside and renamed: two suites that start together must not see half a program.
  const partial = `${binary}.${process.pid}`;
  await run('go', ['build', '-trimpath', '-ldflags', '-s -w', '-o', partial, '.'], { cwd: SOURCE, env: { ...process.env, CGO_ENABLED: '0' } });
  renameSync(partial, binary);
  return binary;
}
