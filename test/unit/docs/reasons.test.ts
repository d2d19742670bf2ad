import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { OUTCOMES } from '../../../src/api/outcomes.js';
import { FAILURE_REASONS, READY_REASONS, RELEASE_REASONS } from '../../../src/api/reasons.js';

/** First cells of the table below the heading that begins with `heading`. */
function documented(heading: string): string[] {
  const page = readFileSync('docs/reasons.md', 'utf8');
  const section = page.split(/^## /m).find((s) => s.startsWith(heading)) ?? '';
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map((m) => m[1] ?? '');
}

test.each([
  ['Why an ImagePrewarm is ready', READY_REASONS],
  ['Why a gang was let go', RELEASE_REASONS],
  ['Why a node is not warm', FAILURE_REASONS],
  ['What became of an image', OUTCOMES],
])('docs/reasons.md, "%s", explains exactly the words of the source', (heading, words) => {
  expect([...documented(heading)].sort()).toEqual([...words].sort());
});
