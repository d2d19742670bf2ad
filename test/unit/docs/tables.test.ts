import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { harbingerConfig } from '../../../src/config/schema.js';
import { IMAGE_FORMATS } from '../../../src/images/formats/index.js';
import { formatsTable } from '../../../tools/generate/formats.js';
import { rowsOf } from '../../../tools/generate/docs.js';
import { toStructural } from '../../../tools/generate/structural.js';

test('docs/spec/config.md has a line with a meaning for each field, and for no other', () => {
  const page = readFileSync('docs/spec/config.md', 'utf8');
  const table = page.slice(page.indexOf('\n## Fields\n'));
  const fields = rowsOf(toStructural(harbingerConfig), '');
  expect([...table.matchAll(/^\| `([^`]+)`/gm)].map((m) => m[1]).sort()).toEqual(fields.map((f) => f.path).sort());
  expect(fields.filter((f) => f.text === '').map((f) => f.path)).toEqual([]);
});

test('docs/formats.md has the row of each format as it is in the source', () => {
  const page = readFileSync('docs/formats.md', 'utf8');
  expect(IMAGE_FORMATS.length).toBeGreaterThan(5);
  for (const { name } of IMAGE_FORMATS) expect(page).toContain(`\n| \`${name}\` |`);
  expect(page).toContain(formatsTable());
});
