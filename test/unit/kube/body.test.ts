import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readLines } from '../../../src/kube/body.js';

async function* inPieces(bytes: Buffer, cuts: number[]): AsyncGenerator<Buffer> {
  let from = 0;
  for (const cut of [...new Set(cuts.map((c) => c % (bytes.length + 1)))].sort((a, b) => a - b)) {
    await Promise.resolve();
    yield bytes.subarray(from, cut);
    from = cut;
  }
  yield bytes.subarray(from);
}

async function lines(body: AsyncIterable<Buffer>, maxBytes = 1e6): Promise<string[]> {
  const all: string[] = [];
  for await (const line of readLines('watch', body, maxBytes)) all.push(line);
  return all;
}

describe('lines of a stream', () => {
  test('are the same wherever the network cuts, also inside a character', async () => {
    const text = fc.array(fc.string({ unit: 'grapheme', minLength: 1 }).map((s) => s.replaceAll('\n', ' ')));
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat(10_000)), fc.string(), async (all, cuts, unfinished) => {
        const body = Buffer.from(all.map((line) => `${line}\n`).join('') + unfinished.replaceAll('\n', ''));
        expect(await lines(inPieces(body, cuts))).toEqual(all);
      }),
    );
  });

  test.each([
    ['an endless line is refused', 'x'.repeat(200), false],
    ['many short ones of the same length together are not', 'x'.repeat(49).concat('\n').repeat(4), true],
  ])('%s', async (_what, text, works) => {
    const reading = lines(inPieces(Buffer.from(text), [30, 60, 90, 120, 150]), 100);
    if (works) expect(await reading).toHaveLength(4);
    else await expect(reading).rejects.toThrow('larger than 100 bytes');
  });
});
