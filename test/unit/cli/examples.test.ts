import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { parseDuration } from '../../../src/api/duration.js';
import { imagePrewarmSpec } from '../../../src/api/kinds/image-prewarm.js';
import { accelerationPolicySpec } from '../../../src/api/kinds/acceleration-policy.js';
import { ANNOTATION, API_VERSION } from '../../../src/api/names.js';
import { loadConfig } from '../../../src/config/load.js';

interface Example {
  apiVersion: string;
  metadata: { annotations?: Record<string, string> };
  spec: unknown;
}

const example = (name: string): Example => parse(readFileSync(`examples/${name}`, 'utf8')) as Example;

describe('the examples say what the API takes', () => {
  test.each([
    ['policy.yaml', accelerationPolicySpec],
    ['policy-serving.yaml', accelerationPolicySpec],
    ['imageprewarm-by-hand.yaml', imagePrewarmSpec],
  ])('%s', (name, schema) => {
    const { apiVersion, spec } = example(name);
    expect(apiVersion).toBe(API_VERSION);
    expect(schema.safeParse(spec).error).toBeUndefined();
    expect(schema.safeParse({}).success).toBe(false);
  });

  test('job-prewarmed.yaml carries annotations of the names and forms that are read', () => {
    const { annotations = {} } = example('job-prewarmed.yaml').metadata;
    expect(Object.keys(annotations).sort()).toEqual([ANNOTATION.prewarm, ANNOTATION.prewarmHold].sort());
    expect(annotations[ANNOTATION.prewarm]).toBe('true');
    expect(parseDuration(annotations[ANNOTATION.prewarmHold] ?? '')).toBe(600_000);
  });

  test('config.yaml is a configuration that the processes take, and names the label of nodes.yaml', async () => {
    const { capabilities } = await loadConfig('examples/config.yaml');
    const [label = ''] = Object.keys(capabilities[0]?.nodeSelector ?? {});
    expect(readFileSync('examples/nodes.yaml', 'utf8')).toContain(`${label}: "true"`);
    expect(readFileSync('examples/pod-serving.yaml', 'utf8')).toContain(`${label}: "true"`);
  });
});
