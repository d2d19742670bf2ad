import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Store } from '../../../src/kube/store.js';

interface Thing {
  name: string;
  tags: string[];
}

describe('the store', () => {
  test('indexes equal a full scan after any order of writes', () => {
    const change = fc.record({ key: fc.nat(5), tags: fc.option(fc.uniqueArray(fc.constantFrom('a', 'b', 'c'))) });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const store = new Store<Thing>({ tag: (t) => t.tags });
        const model = new Map<string, Thing>();
        for (const [i, { key, tags }] of changes.entries()) {
          const name = String(key);
          const before = model.get(name);
          if (tags === null) {
            expect(store.delete(name)).toBe(before);
            model.delete(name);
          } else {
            const thing = { name, tags };
            expect(store.set(name, String(i), thing)).toBe(before);
            model.set(name, thing);
          }
          for (const tag of ['a', 'b', 'c'])
            expect(new Set(store.byIndex('tag', tag))).toEqual(new Set([...model.values()].filter((t) => t.tags.includes(tag))));
          expect(store.list()).toHaveLength(model.size);
        }
      }),
    );
  });

  test('an index that was not declared is an error, not an empty answer', () => {
    expect(() => new Store<Thing>({ tag: (t) => t.tags }).byIndex('tga', 'a')).toThrow('no index "tga"; declared are: tag');
  });
});
