import { describe, expect, test } from '@jest/globals';
import { Explainer } from '../../../src/cli/explain.js';
import type { PodExplanation } from '../../../src/cli/explain.js';
import { renderNotes, renderPod } from '../../../src/cli/explain-text.js';
import { printed } from '../../../src/cli/output.js';
import { readPolicies } from '../../../src/cli/policies.js';
import { podsOf } from '../../../src/cli/pods-of.js';
import { readNodes } from '../../../src/cli/nodes-file.js';
import { RecordedRegistry } from '../../../src/cli/recorded-registry.js';
import { defaultConfig, loadConfig, parseConfig } from '../../../src/config/load.js';
import { parse } from 'yaml';
import { offline } from './support.js';

const TRAIN = 'registry.example.com/ml/train:2.3';
const LLM = 'registry.example.com/serve/llm:3';

type Facts = Parameters<typeof offline>[0];

async function explained(pod: object, facts: Facts = {}): Promise<PodExplanation> {
  const [port, policies] = await Promise.all([RecordedRegistry.read('examples/registry'), readPolicies(['examples'])]);
  const ground = offline({ policies, ...facts });
  return new Explainer({ ground, port }).pod({ namespace: 'default', pod: { ...pod } });
}

const pod = (spec: object, metadata: object = {}): object => ({ apiVersion: 'v1', kind: 'Pod', metadata, spec });
const outcomes = ({ containers }: PodExplanation): string[] =>
  containers.map(({ decision }) => `${decision.container} ${decision.outcome}`);

describe('a Pod', () => {
  test('is explained container by container, and with its image volumes where the configuration lets them change', async () => {
    const spec = {
      initContainers: [{ name: 'setup', image: 'busybox' }],
      containers: [{ name: 'main', image: TRAIN }],
      volumes: [{ name: 'data', image: { reference: TRAIN } }],
    };
    expect(outcomes(await explained(pod(spec)))).toEqual(['setup no-policy', 'main accelerated']);
    const config = parseConfig('rewrite: {imageVolumes: true}', 'test');
    const { patch, ...rest } = await explained(pod(spec), { config });
    expect(outcomes({ patch, ...rest })).toEqual(['setup no-policy', 'main accelerated', 'volume/data accelerated']);
    expect(patch.map(({ path }) => path)).toEqual([
      '/spec/containers/0/image',
      '/spec/volumes/0/image/reference',
      '/metadata/annotations',
      '/metadata/labels',
    ]);
  });

  test.each<[string, object, object, string]>([
    ['that opts out', { annotations: { 'harbinger.dev/accelerate': 'false' } }, {}, 'skipped-opt-out'],
    ['that skips the container', { annotations: { 'harbinger.dev/skip-containers': 'main' } }, {}, 'skipped-container'],
    ['whose image is never pulled', {}, { imagePullPolicy: 'Never' }, 'skipped-pull-never'],
    [
      'of an unknown operator',
      { ownerReferences: [{ apiVersion: 'db.example.com/v1', kind: 'Postgres', name: 'p', uid: 'u', controller: true }] },
      {},
      'skipped-owner',
    ],
  ])('%s says so in a step, and keeps its image', async (_, metadata, container, outcome) => {
    const found = await explained(pod({ containers: [{ name: 'main', image: TRAIN, ...container }] }, metadata));
    expect(outcomes(found)).toEqual([`main ${outcome}`]);
    expect(found.containers[0]?.steps.at(-1)).toMatchObject({
      step: outcome === 'skipped-owner' ? 'owner' : 'opt-out',
      verdict: 'no',
      detail: found.containers[0]?.decision.message,
    });
    expect(found.patch.some(({ path }) => path.includes('image'))).toBe(false);
  });

  test('that opted out after an earlier call changed it gets its source back, as by the webhook', async () => {
    const [first] = (await explained(pod({ containers: [{ name: 'main', image: TRAIN }] }))).containers;
    const spec = { containers: [{ name: 'main', image: first?.decision.image }] };
    const claimed = { 'harbinger.dev/decisions': JSON.stringify([first?.decision]) };
    const labels = { 'harbinger.dev/accelerated': 'true' };
    const out = pod(spec, { annotations: { ...claimed, 'harbinger.dev/accelerate': 'false' }, labels });
    const found = await explained(out);
    expect(outcomes(found)).toEqual(['main skipped-opt-out']);
    expect(found.patch).toEqual([
      { op: 'replace', path: '/spec/containers/0/image', value: TRAIN },
      { op: 'remove', path: '/metadata/annotations/harbinger.dev~1decisions' },
      { op: 'remove', path: '/metadata/labels/harbinger.dev~1accelerated' },
    ]);
    // Negative twin: without the opt-out it keeps what it has.
    expect((await explained(pod(spec, { annotations: claimed, labels }))).patch).toEqual([]);
  });

  test('that has no spec is an error', async () => {
    await expect(explained({ kind: 'Pod', metadata: {} })).rejects.toThrow(/no metadata or no spec/);
  });

  test.each([
    ['mode: Observe', /mode is Observe/],
    ['mode: Off', /mode is Off/],
  ])('is not changed with %s, which is said', async (config, message) => {
    const found = await explained(pod({ containers: [{ name: 'main', image: TRAIN }] }), { config: parseConfig(config, 'test') });
    expect(found).toMatchObject({ unseen: expect.stringMatching(message), patch: [] });
    expect(outcomes(found)).toEqual(['main accelerated']);
    expect(renderNotes([], found)).toMatch(/^! .*so nothing happens; this is what would\n$/);
  });
});

describe('nodes', () => {
  const demands = { nodeSelector: { 'example.com/nydus': 'true' } };
  const withNodes = async (): Promise<Facts> => {
    const config = await loadConfig('examples/config.yaml');
    return { config, classes: await readNodes('examples/nodes.yaml', config) };
  };

  test.each<[string, object, () => Promise<Facts>, string, RegExp | undefined]>([
    ['that nobody knows', {}, () => Promise.resolve({}), 'node-incapable', /nodes are not known/],
    ['of a file, one of which cannot', {}, withNodes, 'node-incapable', /1 of the 3 nodes/],
    ['that a Pod demands to be able', demands, withNodes, 'accelerated', undefined],
    [
      'that are said to be able',
      {},
      () => Promise.resolve({ assumptions: { platforms: [], capable: ['nydus'] } }),
      'accelerated',
      undefined,
    ],
  ])('%s decide about Nydus', async (...[, spec, facts, outcome, obstacle]) => {
    const found = await explained(pod({ ...spec, containers: [{ name: 'main', image: LLM }] }), await facts());
    expect(outcomes(found)).toEqual([`main ${outcome}`]);
    const obstacles = Object.values(found.nodes.obstacles);
    expect(obstacles.filter((text) => obstacle?.test(text))).toHaveLength(obstacle === undefined ? 0 : 1);
  });

  test('of a file without any are an error that says what to write into it', async () => {
    await expect(readNodes('examples/policy.yaml', defaultConfig())).rejects.toThrow(/kubectl get nodes -o yaml/);
  });
});

describe('output', () => {
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'j' },
    spec: { template: { spec: { containers: [{ name: 'main', image: TRAIN }] } } },
  };

  test('as a tree has the nodes first, the ladder of each container, and the patch last', async () => {
    const [found] = podsOf(job);
    const lines = renderPod('Job default/j', await explained(found?.pod ?? {})).split('\n');
    expect(lines.filter((line) => /^[^│ ]/.test(line)).map((line) => line.replace(/:.*/, ''))).toEqual([
      'Job default/j',
      '├─ nodes',
      '├─ main',
      '└─ patch',
    ]);
    expect(lines.at(-2)).toMatch(/^ {3}└─ add \/metadata\/labels/);
  });

  test('as YAML says what JSON says', async () => {
    const [found] = podsOf(job);
    const explanation = await explained(found?.pod ?? {});
    expect(parse(printed(explanation, 'yaml'))).toEqual(JSON.parse(printed(explanation, 'json')));
  });
});
