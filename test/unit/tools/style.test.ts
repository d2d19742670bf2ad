import { describe, expect, test } from '@jest/globals';
import { countLines, problems } from '../../../tools/style/rules.js';

describe('house rules', () => {
  test.each([
    ['an open end', 'test/a.ts', `// ${'TO'}DO later`, 'test/a.ts:2: do it'],
    ['a check that was turned off', 'test/a.ts', `// @ts-${'ignore'}`, 'test/a.ts:2: fix the cause'],
    ['a registry in the lock file', 'package-lock.json', '"resolved": "https://r.example.com/x.tgz"', 'package-lock.json:2'],
    ['a path of one machine', 'docs/x.md', `see /${'work'}/main`, 'docs/x.md:2: a path'],
  ])('refuse %s', (_name, path, line, want) => {
    const { errors } = problems([{ path, text: `a\n${line}\n` }]);
    expect(errors).toEqual([expect.stringContaining(want)]);
  });

  test('let a rule be turned off with a reason', () => {
    expect(problems([{ path: 'test/a.ts', text: `// eslint-${'disable'}-next-line x -- because` }]).errors).toEqual([]);
  });

  test('want comments, and not a second text', () => {
    expect(problems([{ path: 'src/a.ts', text: 'a\n'.repeat(50) }]).errors).toHaveLength(1);
    expect(problems([{ path: 'src/a.ts', text: '// a\n'.repeat(50) }]).errors).toHaveLength(1);
    expect(problems([{ path: 'src/a.ts', text: 'a\n'.repeat(85) + '// a\n'.repeat(15) }]).errors).toEqual([]);
  });

  test('want small files on average', () => {
    expect(problems([{ path: 'src/a.ts', text: 'a\n'.repeat(300) + '// a\n'.repeat(50) }]).errors).toEqual([
      expect.stringContaining('split files'),
    ]);
  });
});

test('a comment is a line that holds nothing else', () => {
  expect(countLines('/** a\n * b\n */\n\nx; // c\n// d\n')).toEqual({ code: 5, comment: 4 });
});
