import { describe, expect, test } from '@jest/globals';
import { platformText, runsOn } from '../../../src/images/platform.js';

describe('one platform has one text', () => {
  test.each([
    ['linux', 'amd64', undefined, 'linux/amd64'],
    ['linux', 'x86_64', undefined, 'linux/amd64'],
    ['Linux', 'aarch64', 'v8', 'linux/arm64'],
    ['linux', 'arm64', 'v9', 'linux/arm64/v9'],
    ['linux', 'arm', 'v7', 'linux/arm'],
    ['linux', 'arm', 'v6', 'linux/arm/v6'],
    ['linux', 'amd64', 'v3', 'linux/amd64/v3'],
  ])('%s %s %s is %s', (os, architecture, variant, expected) => {
    expect(platformText(os, architecture, variant)).toBe(expected);
  });
});

describe('an image runs on a node', () => {
  test.each([
    ['of the same platform', 'linux/amd64', 'linux/amd64', true],
    ['that reports no variant', 'linux/arm/v6', 'linux/arm', true],
    ['of another variant not', 'linux/arm/v6', 'linux/arm/v5', false],
    ['of another architecture not', 'linux/amd64', 'linux/arm64', false],
    ['of another system not', 'windows/amd64', 'linux/amd64', false],
  ])('%s', (_, offered, wanted, expected) => {
    expect(runsOn(offered, wanted)).toBe(expected);
  });
});
