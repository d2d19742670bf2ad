import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch } from 'rfc6902';
import { patchProblem } from '../../../src/rewrite/applies.js';
import type { PatchOp } from '../../../src/rewrite/patch.js';
import { pointer } from '../../../src/rewrite/patch.js';

const pod = {
  metadata: { name: 'p', annotations: { 'a/b~c': '1' } },
  spec: { containers: [{ name: 'app', image: 'x' }], volumes: null },
};
const replace = (path: string): PatchOp => ({ op: 'replace', path, value: 'y' });
const add = (path: string): PatchOp => ({ op: 'add', path, value: 'y' });
const remove = (path: string): PatchOp => ({ op: 'remove', path });

describe('patchProblem', () => {
  test.each<[string, PatchOp[]]>([
    ['an image that is there', [replace('/spec/containers/0/image')]],
    ['a new annotation', [add('/metadata/annotations/new')]],
    ['an annotation that is there, by an escaped key', [add('/metadata/annotations/a~1b~0c')]],
    ['a map that is not there', [add('/metadata/labels')]],
    ['the removal of an annotation', [remove('/metadata/annotations/a~1b~0c')]],
    ['nothing', []],
    ['a null', [replace('/spec/volumes')]],
  ])('is satisfied with %s', (_, ops) => {
    expect(patchProblem(pod, ops)).toBeUndefined();
  });

  test.each<[string, PatchOp[]]>([
    ['an image of a container that is not there', [replace('/spec/containers/1/image')]],
    ['a field that is not there', [replace('/spec/containers/0/imagePullPolicy')]],
    ['a list in place of an index', [replace('/spec/containers/x/image')]],
    ['an index with a leading zero', [replace('/spec/containers/00/image')]],
    ['a key of a map that is not there', [add('/metadata/labels/x')]],
    ['an element of a list', [add('/spec/containers/1')]],
    ['the removal of nothing', [remove('/metadata/annotations/x')]],
    ['a field of every object', [replace('/metadata/constructor')]],
    ['an object that only an earlier operation makes', [add('/metadata/labels'), add('/metadata/labels/x')]],
    ['two writes of one place', [replace('/spec/containers/0/image'), replace('/spec/containers/0/image')]],
    ['a path without slash', [replace('spec')]],
    ['the whole object', [replace('')]],
  ])('objects to %s', (_, ops) => {
    expect(patchProblem(pod, ops)).toBeTruthy();
  });

  test('what it lets pass applies, to any object', () => {
    const key = fc.constantFrom('a', 'b', '0', '1', 'a/b', '~', '');
    const path = fc.array(key, { minLength: 1, maxLength: 3 }).map((keys) => pointer(...keys));
    const op = fc.record({ op: fc.constantFrom('add' as const, 'replace' as const), path, value: fc.constant('v') });
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        fc.string(),
        fc.constant(null),
        fc.array(tie('node')),
        fc.dictionary(key, tie('node')),
      ),
    })).node;
    let passed = 0;
    fc.assert(
      fc.property(fc.dictionary(key, tree), fc.array(op, { maxLength: 2 }), (object, ops) => {
        if (ops.length === 0 || patchProblem(object, ops) !== undefined) return;
        // Writing a place and something below it depends on the order; the webhook never does.
        if (ops.some((a) => ops.some((b) => a !== b && b.path.startsWith(`${a.path}/`)))) return;
        passed++;
        expect(applyPatch(structuredClone(object), ops).filter((e) => e !== null)).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
    expect(passed).toBeGreaterThan(50);
  });
});
