import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import { MARKER, rowsOf, withGenerated } from '../../../tools/generate/docs.js';

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
