import { describe, expect, test } from '@jest/globals';
import { findRecorded, findResolved, readRecord } from '../../../src/rewrite/record.js';
import { DIGEST } from './builders.js';

const reference = { registry: 'r.example', repository: 'app', tag: 'v1' };
const good = { source: 'r.example/app:v1', resolved: `r.example/app@${DIGEST}` };

describe('readRecord', () => {
  test.each<[string, Record<string, unknown>, boolean]>([
    ['a resolved image', good, true],
    ['one that is not resolved yet', { source: good.source }, false],
    ['one that names a tag only', { ...good, resolved: 'r.example/app:v2' }, false],
    ['one that cannot be parsed', { ...good, resolved: 'No Image' }, false],
    ['a source that cannot be parsed', { ...good, source: 'No Image' }, false],
    ['fields of other types', { source: 1, resolved: {} }, false],
  ])('%s', (_, image, there) => {
    expect(findRecorded([readRecord('ns/x', [{ images: [image] }])], reference) !== undefined).toBe(there);
  });

  test('of no status is empty', () => {
    expect(readRecord('ns/x', undefined).images.size).toBe(0);
    expect(readRecord('ns/x', [{}]).images.size).toBe(0);
  });

  test('keeps what was decided, and takes an unknown word for pinned', () => {
    const outcomes = ['accelerated', 'pinned', 'no-such-word', undefined].map((outcome) => {
      const images = [{ ...good, digest: DIGEST, ...(outcome === undefined ? {} : { outcome }) }];
      return findRecorded([readRecord('ns/x', [{ images }])], reference)?.image.outcome;
    });
    expect(outcomes).toEqual(['accelerated', 'pinned', 'pinned', 'pinned']);
  });
});

describe('findResolved', () => {
  test('finds exactly the image that stands there', () => {
    const records = [readRecord('ns/x', [{ images: [good] }])];
    expect(findResolved(records, good.resolved)?.prewarm).toBe('ns/x');
    expect(findResolved(records, `r.example/other@${DIGEST}`)).toBeUndefined();
  });
});
