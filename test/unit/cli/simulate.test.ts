import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { Explainer } from '../../../src/cli/explain.js';
import { ManifestSource } from '../../../src/cli/manifest-source.js';
import type { Entry } from '../../../src/cli/manifests.js';
import { manifestsOf } from '../../../src/cli/manifests.js';
import { readPolicies } from '../../../src/cli/policies.js';
import { RecordedRegistry } from '../../../src/cli/recorded-registry.js';
import { PRINTERS } from '../../../src/cli/simulate-print.js';
import { Simulation } from '../../../src/cli/simulate.js';
import type { Summary } from '../../../src/cli/simulate.js';
import { offline } from './support.js';

const pod = (name: string, image: string, more = ''): string =>
  `kind: Pod\nmetadata: {name: ${name}${more}}\nspec: {containers: [{name: c, image: "${image}"}]}\n`;
const ML = 'registry.example.com/ml';

async function* parts(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Promise.resolve(Buffer.from(text));
}

async function* entries(text: string): AsyncGenerator<Entry> {
  for (const entry of manifestsOf(text, 'f.yaml')) yield Promise.resolve(entry);
}

interface Simulated {
  summary: Summary;
  text: string;
  json: { items: { object?: string; unseen?: string; problem?: object }[]; notes: string[]; summary: Summary };
  yaml: unknown;
}

async function simulate(...documents: string[]): Promise<Simulated> {
  const [port, policies] = await Promise.all([RecordedRegistry.read('examples/registry'), readPolicies(['examples'])]);
  const ground = offline({ policies });
  const source = new ManifestSource(['-'], parts(documents.join('---\n')));
  for await (const [name, facts] of source.namespaces()) ground.learn(name, facts);
  const simulation = new Simulation({ explainer: new Explainer({ ground, port }) });
  const printers = { text: PRINTERS.text(), json: PRINTERS.json(), yaml: PRINTERS.yaml() };
  const texts = { text: '', json: '', yaml: '' };
  for await (const item of simulation.run(entries(documents.join('---\n'))))
    for (const form of ['text', 'json', 'yaml'] as const) texts[form] += printers[form].item(item);
  const { summary } = simulation;
  for (const form of ['text', 'json', 'yaml'] as const) texts[form] += printers[form].end(summary, ['a note']);
  return { summary, text: texts.text, json: JSON.parse(texts.json) as Simulated['json'], yaml: parse(texts.yaml) };
}

describe('a simulation', () => {
  test.each<[string, string, Partial<Summary>]>([
    ['a change', pod('a', `${ML}/train:2.3`), { changed: 1, left: 0, problems: 0 }],
    ['an image that a policy speaks of and that is left', pod('a', `${ML}/train:2.4`), { changed: 0, left: 1, problems: 0 }],
    ['an image that cannot be looked up', pod('a', `${ML}/secret:1`), { changed: 0, left: 1, problems: 1 }],
    ['an image that cannot be parsed', pod('a', 'A B'), { changed: 0, left: 1, problems: 1 }],
    ['an image of no policy', pod('a', 'nginx'), { changed: 0, left: 0, problems: 0 }],
    ['a Pod without spec', 'kind: Pod\nmetadata: {name: a}\n', { objects: 0, changed: 0, problems: 0 }],
    ['other kinds', 'kind: Service\n', { objects: 0, pods: 0, containers: 0, changed: 0, left: 0, problems: 0 }],
    ['a broken document', 'a: [\n', { objects: 0, problems: 1 }],
    ['nothing', '', { objects: 0, problems: 0 }],
  ])('counts %s', async (_, text, wanted) => {
    expect((await simulate(text)).summary).toMatchObject(wanted);
  });

  test('goes on behind what it cannot read, in order, and prints the same in all forms', async () => {
    const { text, json, yaml, summary } = await simulate(pod('a', `${ML}/train:2.3`), 'a: [\n', pod('b', 'nginx'));
    expect(yaml).toEqual(json);
    expect(json).toMatchObject({
      items: [{ object: 'Pod default/a' }, { problem: { line: expect.any(Number) } }, { object: 'Pod default/b' }],
      notes: ['a note'],
      summary,
    });
    expect(text).toMatch(/^f\.yaml:1: Pod default\/a\n/);
    expect(text).toMatch(/\n! a note\n2 objects, 2 Pod templates, 2 containers\n/);
    expect(text).toMatch(/1 changed, 0 left, 1 problems\n$/);
  });

  test('of nothing is valid in all forms', async () => {
    const { json, yaml } = await simulate('');
    expect(json.items).toEqual([]);
    expect(yaml).toEqual(json);
  });

  test('counts an image and its bytes once, however many Pods have it', async () => {
    const { summary } = await simulate(pod('a', `${ML}/train:2.3`), pod('b', `${ML}/train:2.3`));
    expect(summary.changed).toBe(2);
    expect(summary.byOutcome['accelerated']).toEqual({ images: 1, bytes: expect.any(Number) });
    expect(summary.byOutcome['accelerated']?.bytes).toBeGreaterThan(10e9);
  });

  const off = 'kind: Namespace\nmetadata: {name: off, labels: {harbinger.dev/accelerate: disabled}}\n';
  const inOff = pod('a', `${ML}/train:2.3`, ', namespace: off');
  test.each([
    ['before', [off, inOff]],
    ['behind', [inOff, off]],
  ])('goes by a Namespace %s the Pods among the manifests', async (_, documents) => {
    const { json, summary } = await simulate(...documents);
    expect(json.items).toMatchObject([{ unseen: expect.stringContaining('off is not labelled') }]);
    expect(summary).toMatchObject({ changed: 0, left: 0, byOutcome: { unseen: { images: 1 } } });
  });

  test.each([
    ['kube-system', false],
    ['kube-public', false],
    ['kube-node-lease', false],
    ['harbinger-system', false],
    ['kube-systems', true],
  ])('a Pod in namespace %s is seen: %p', async (namespace, seen) => {
    const { json, summary, text } = await simulate(pod('a', `${ML}/train:2.3`, `, namespace: ${namespace}`));
    expect(summary.changed).toBe(seen ? 1 : 0);
    expect(json.items[0]?.unseen).toEqual(seen ? undefined : expect.stringContaining('never called for'));
    expect(text.includes('not looked at')).toBe(!seen);
  });

  const made = (apiVersion: string, kind: string): string =>
    `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: c, image: "${ML}/train:2.3"}]}}}\n`;
  test.each<[string, string, Partial<Summary>, RegExp]>([
    ['argoproj.io/v1alpha1', 'Rollout', { changed: 1 }, /accelerated/],
    ['serving.knative.dev/v1', 'Service', { changed: 1 }, /accelerated/],
    ['kubeflow.org/v1', 'Notebook', { changed: 1 }, /accelerated/],
    [
      'databases.example.com/v1',
      'Postgres',
      { changed: 0, left: 0 },
      /no verdict: the owner of the Pods is not known: Postgres\.d/,
    ],
  ])('judges Pods of %s %s by who owns them', async (apiVersion, kind, counts, text) => {
    const simulated = await simulate(made(apiVersion, kind));
    expect(simulated.summary).toMatchObject({ pods: 1, containers: 1, problems: 0, ...counts });
    expect(simulated.text).toMatch(text);
    expect(Object.keys(simulated.summary.byOutcome)).toEqual([counts.changed === 1 ? 'accelerated' : 'owner-unknown']);
  });

  test('holds a window of objects, not the folder', async () => {
    let read = 0;
    async function* endless(): AsyncGenerator<Entry> {
      for (;;) {
        read++;
        yield Promise.resolve({ problem: { file: 'f', message: 'x' } });
      }
    }
    const simulation = new Simulation({
      explainer: { pod: () => Promise.reject(new Error('not asked')) },
    });
    for await (const _ of simulation.run(endless())) break;
    expect(read).toBeLessThan(50);
  });
});
