import { describe, expect, test } from '@jest/globals';
import { ConfigError, parseConfig } from '../../../src/config/load.js';
import { readYaml } from '../../../src/config/yaml.js';

describe('a YAML text', () => {
  test.each<[string, string, unknown[]]>([
    [
      'with several documents',
      'a: 1\n---\nb: 2\n',
      [
        { line: 1, value: { a: 1 } },
        { line: 3, value: { b: 2 } },
      ],
    ],
    ['with merge keys', 'a: &a {b: 1}\nc:\n  <<: *a\n', [{ line: 1, value: { a: { b: 1 }, c: { b: 1 } } }]],
    ['of 150 levels', `a: ${'['.repeat(150)}${']'.repeat(150)}`, [expect.objectContaining({ value: expect.anything() })]],
  ])('%s is read', (_, text, wanted) => {
    expect(readYaml(text)).toEqual(wanted);
  });

  test.each<[string, string, RegExp]>([
    ['brackets without end', `a: ${'['.repeat(50_000)}`, /^nested too deeply$/],
    ['brackets that end', `a: ${'['.repeat(5_000)}${']'.repeat(5_000)}`, /^nested too deeply$/],
    ['an error without words', 'a: !<b c\n', /^not YAML \([A-Z_]+\)$/],
  ])('with %s is a problem', (_, text, wanted) => {
    expect(readYaml(text)).toEqual([{ line: 1, problem: expect.stringMatching(wanted) }]);
  });
});

describe('a configuration', () => {
  test.each<[string, string, RegExp]>([
    // Without a guard this ends the process, not the parser.
    ['nested without end', `a: ${'['.repeat(50_000)}`, /^f\.yaml: line 1: nested too deeply$/],
    ['that is broken', 'mode: On\nscope: a: b\n', /^f\.yaml: line 2: not YAML: .*\(BLOCK_AS_IMPLICIT_KEY\)$/],
    ['of two documents', 'mode: On\n---\nmode: Off\n', /^f\.yaml: line 3: a second document/],
  ])('%s is an error with its line', (_, text, wanted) => {
    expect(() => parseConfig(text, 'f.yaml')).toThrow(ConfigError);
    expect(() => parseConfig(text, 'f.yaml')).toThrow(wanted);
  });

  test('that was pasted from a Secret is not printed', () => {
    expect(() => parseConfig('password: *hunter2\n', 'f.yaml')).toThrow(/^f\.yaml: line 1: not YAML(?!.*hunter)/);
  });

  test.each(['', '# nothing\n', '---\n'])('%j is that of defaults', (text) => {
    expect(parseConfig(text, 'f.yaml').mode).toBe('On');
  });
});
