import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { toStructural } from '../../../tools/generate/structural.js';

describe('toStructural', () => {
  test.each([
    [
      'a list map',
      z.array(z.object({ name: z.string() })).meta({ listMapKeys: ['name'] }),
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
    ],
    ['a list set', z.array(z.string()).meta({ listSet: true }), { 'x-kubernetes-list-type': 'set' }],
    [
      'a CEL rule',
      z.object({}).meta({ cel: [{ rule: 'true', message: 'm' }] }),
      { 'x-kubernetes-validations': [{ rule: 'true', message: 'm' }] },
    ],
    ['unknown fields', z.object({}).meta({ preserveUnknown: true }), { 'x-kubernetes-preserve-unknown-fields': true }],
    [
      'a default and a range',
      z.int().min(1).max(9).default(3),
      { type: 'integer', minimum: 1, maximum: 9, default: 3, format: 'int64' },
    ],
    ['words', z.enum(['A', 'B']), { type: 'string', enum: ['A', 'B'] }],
    ['a map', z.record(z.string(), z.string()), { type: 'object', additionalProperties: { type: 'string' } }],
  ])('translates %s', (_name, schema, want) => {
    expect(toStructural(z.object({ field: schema })).properties).toMatchObject({ field: want });
  });

  test('leaves no trace of our own keys, of references and of the range of a double', () => {
    const shared = z.object({ n: z.int() }).meta({ description: 'shared' });
    const text = JSON.stringify(toStructural(z.object({ a: shared, b: shared, c: z.array(z.string()).meta({ listSet: true }) })));
    expect(text).not.toMatch(/\$ref|\$defs|listSet|9007199254740991/);
    expect(text.match(/shared/g)).toHaveLength(2);
  });

  test('a strict object loses additionalProperties, which must not stand beside properties', () => {
    expect(toStructural(z.strictObject({ a: z.string() }))).not.toHaveProperty('additionalProperties');
  });

  test('an integer or a string has no type of its own', () => {
    const field = toStructural(z.object({ port: z.string().meta({ intOrString: true }) })).properties as Record<string, unknown>;
    expect(field['port']).toEqual({ 'x-kubernetes-int-or-string': true });
  });

  test.each([
    ['a union', z.object({ a: z.object({ b: z.union([z.string(), z.number()]) }) }), '.a.b'],
    ['a meta key that nobody knows', z.object({ a: z.string().meta({ listMapKey: ['x'] }) }), '.a'],
  ])('refuses %s and names the field', (_name, schema, path) => {
    expect(() => toStructural(schema)).toThrow(path);
  });
});
