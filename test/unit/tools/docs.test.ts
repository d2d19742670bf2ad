import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import { OUTCOMES } from '../../../src/api/outcomes.js';
import { FAILURE_REASONS, READY_REASONS, RELEASE_REASONS } from '../../../src/api/reasons.js';
import { MARKER, rowsOf, withGenerated } from '../../../tools/generate/docs.js';

const reasons = readFileSync('docs/reasons.md', 'utf8');

/** Words in the first column of the table under a heading, in order. */
function wordsUnder(page: string, heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map((m) => m[1] ?? '');
}

describe('docs/reasons.md', () => {
  test.each<[string, readonly string[]]>([
    ['Outcomes', OUTCOMES],
    ['Ready', READY_REASONS],
    ['Released', RELEASE_REASONS],
    ['Failures', FAILURE_REASONS],
  ])('explains every word of %s, and no other', (heading, words) => {
    expect([...wordsUnder(reasons, heading)].sort()).toEqual([...words].sort());
  });

  test('a word that is missing would be noticed', () => {
    expect(wordsUnder(reasons.replace('| `pinned` |', '| pinned |'), 'Outcomes')).not.toContain('pinned');
  });
});

test('docs/annotations.md names every annotation and label', () => {
  const page = readFileSync('docs/annotations.md', 'utf8');
  for (const name of [...Object.values(ANNOTATION), ...Object.values(LABEL)]) expect(page).toContain(`\`${name}\``);
});

describe('generated part of a page', () => {
  test('replaces what was generated and keeps what was written by hand', () => {
    const page = withGenerated('# Title\n\nBy hand.\n\n', 'unused', 'one');
    expect(page).toContain('# unused');
    const first = `# Title\n\nBy hand.\n\n${MARKER}\n\none\n`;
    expect(withGenerated(first, 'unused', 'two')).toBe(`# Title\n\nBy hand.\n\n${MARKER}\n\ntwo\n`);
    expect(withGenerated(withGenerated(first, 'x', 'two'), 'x', 'two')).toBe(withGenerated(first, 'x', 'two'));
  });

  test('has a row per field, parents first, with type, default and rules', () => {
    const rows = rowsOf(
      {
        type: 'object',
        required: ['list'],
        properties: {
          list: {
            type: 'array',
            description: 'L.',
            items: { type: 'object', properties: { word: { type: 'string', enum: ['A'], default: 'A' } } },
          },
          map: {
            type: 'object',
            additionalProperties: { type: 'integer' },
            'x-kubernetes-validations': [{ rule: 'r', message: 'few' }],
          },
        },
      },
      'spec',
    );
    expect(rows).toEqual([
      { path: 'spec.list', type: 'list of object', required: true, initial: '', text: 'L.' },
      { path: 'spec.list[].word', type: '`A`', required: false, initial: '`A`', text: '' },
      { path: 'spec.map', type: 'map to integer', required: false, initial: '', text: 'Checked: few.' },
    ]);
  });
});
