import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { chartFiles } from './generate/chart.js';
import { docFiles } from './generate/docs.js';
import { exampleFiles } from './generate/examples.js';
import { manifestFiles } from './generate/manifests.js';
import type { Generated } from './generate/yaml.js';

const read = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');

function all(): Generated[] {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  return [...manifestFiles(version), ...chartFiles(version), ...docFiles(read), ...exampleFiles()];
}

/**
 * Writes every generated file of the repository. With --check it also fails when a file on disk or in the last commit is not
 * what the sources say: such a file was edited by hand, or its commit was forgotten.
 */
function main(check: boolean): number {
  const files = all();
  const changed = files.filter(({ path, text }) => read(path) !== text);
  for (const { path, text } of changed) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  console.log(`${files.length} generated files, ${changed.length} written${changed.map(({ path }) => `\n  ${path}`).join('')}`);
  if (!check) return 0;
  const dirty = execFileSync('git', ['status', '--porcelain', '--', ...files.map(({ path }) => path)], { encoding: 'utf8' });
  if (dirty !== '')
    console.error(`generated files differ from the last commit; commit them together with their source:\n${dirty}`);
  return dirty === '' ? 0 : 1;
}

process.exitCode = main(process.argv.includes('--check'));
