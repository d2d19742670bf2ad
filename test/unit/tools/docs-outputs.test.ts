import { expect, test } from '@jest/globals';
import { fillOutputs } from '../../../tools/docs-outputs/fill.js';

const page = 'a\n<!-- output: kubectl get x -->\nold\n<!-- /output -->\nb\n';
const outputs = new Map([['kubectl get x', 'NAME\nx   \n']]);

test('puts the output of the named command between its markers and keeps the rest', () => {
  const { text, missing } = fillOutputs(page, outputs);
  expect(text).toBe('a\n<!-- output: kubectl get x -->\n\n```console\n$ kubectl get x\nNAME\nx\n```\n\n<!-- /output -->\nb\n');
  expect(missing).toEqual([]);
});

test('changes nothing when applied again', () => {
  const once = fillOutputs(page, outputs).text;
  expect(fillOutputs(once, outputs).text).toBe(once);
});

test('keeps what stands there and says so when the command was not run', () => {
  expect(fillOutputs(page, new Map())).toEqual({ text: page, missing: ['kubectl get x'] });
});

test('shows dollar signs as they are', () => {
  expect(fillOutputs(page, new Map([['kubectl get x', '$& $1']])).text).toContain('\n$& $1\n');
});

test('cuts a very long output at a line and says how much is left out', () => {
  const { text } = fillOutputs(page, new Map([['kubectl get x', 'line\n'.repeat(100)]]));
  expect(text).toContain('... (40 more lines)');
});
