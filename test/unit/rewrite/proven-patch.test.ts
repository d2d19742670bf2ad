import { expect, test } from '@jest/globals';
import { provenPatch } from '../../../src/rewrite/applies.js';
import type { PatchOp } from '../../../src/rewrite/patch.js';

const pod = { metadata: {}, spec: { containers: [{ image: 'a' }] } };
const good: PatchOp = { op: 'replace', path: '/spec/containers/0/image', value: 'b' };

test('a patch is sent as a whole where each operation is proven', () => {
  expect(provenPatch(pod, [good])).toEqual({ ops: [good] });
});

test('one operation that is not proven keeps back all of them, and says why', () => {
  const bad: PatchOp = { op: 'replace', path: '/spec/containers/1/image', value: 'b' };
  expect(provenPatch(pod, [good, bad])).toEqual({ ops: [], problem: expect.stringContaining('/spec/containers/1/image') });
});
