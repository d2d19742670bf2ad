import { readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { problems } from './style/rules.js';

/** Checks house rules that no linter knows, over the files that git tracks. */
const files = execFileSync(
  'git',
  ['ls-files', '-z', '--', 'src', 'test', 'tools', 'demo', 'puller', 'docs', 'manifests', 'charts', '*.md', 'package-lock.json'],
  {
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  },
)
  .split('\0')
  .filter((path) => path !== '')
  .flatMap((path) => {
    try {
      return [{ path, text: readFileSync(path, 'utf8') }];
    } catch {
      // Deleted in the work tree and not yet in a commit.
      return [];
    }
  });

const { errors, summary } = problems(files);
for (const line of [...errors, summary]) console.log(line);
process.exitCode = errors.length === 0 ? 0 : 1;
