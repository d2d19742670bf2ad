import { EventEmitter } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { endWithReader } from '../../../src/cli/end-with-reader.js';

const fails = (code: string): { codes: number[]; fail: () => void } => {
  const output = new EventEmitter();
  const codes: number[] = [];
  endWithReader(output, (status) => codes.push(status));
  return { codes, fail: () => output.emit('error', Object.assign(new Error(code), { code })) };
};

describe('an output', () => {
  test('that nobody reads any more ends the process as it ends others', () => {
    const { codes, fail } = fails('EPIPE');
    fail();
    expect(codes).toEqual([141]);
  });

  test('that cannot be written otherwise is an error', () => {
    const { codes, fail } = fails('ENOSPC');
    expect(fail).toThrow('ENOSPC');
    expect(codes).toEqual([]);
  });
});
