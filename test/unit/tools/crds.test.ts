import { describe, expect, test } from '@jest/globals';
import { KINDS } from '../../../src/api/kinds/index.js';
import { crdOf, crds } from '../../../tools/generate/crds.js';
import { rowsOf } from '../../../tools/generate/docs.js';
import { toStructural } from '../../../tools/generate/structural.js';

type Node = Record<string, unknown>;

/** Every schema node below and including `node`, with its path. */
function walk(node: Node, path = ''): [string, Node][] {
  const fields = Object.entries((node['properties'] ?? {}) as Record<string, Node>);
  const below = fields.flatMap(([name, inner]) => walk(inner, `${path}.${name}`));
  const items = node['items'] === undefined ? [] : walk(node['items'] as Node, `${path}[]`);
  return [[path, node], ...below, ...items];
}

describe.each(KINDS.map((kind) => [kind.kind, kind] as const))('CRD of %s', (_name, kind) => {
  const spec = toStructural(kind.spec);
  const nodes = [...walk(spec, 'spec'), ...walk(toStructural(kind.status), 'status')];

  test('has the status subresource and a column that exists in the schema for each name', () => {
    const version = (crdOf(kind)['spec'] as { versions: Node[] }).versions[0];
    expect(version?.['subresources']).toEqual({ status: {} });
    const known = new Set(nodes.map(([path]) => path));
    for (const { jsonPath } of kind.columns) {
      if (jsonPath.startsWith('.metadata')) continue;
      expect(known).toContain(jsonPath.slice(1).replace(/\[\?.*?\]/, '[]'));
    }
  });

  test('every field says what it is for', () => {
    const silent = [...rowsOf(spec, 'spec'), ...rowsOf(toStructural(kind.status), 'status')].filter((row) => row.text === '');
    expect(silent.map((row) => row.path)).toEqual([]);
  });

  test('every list of the spec is bounded, or the API server would refuse rules for their cost', () => {
    const unbounded = walk(spec, 'spec').filter(([, node]) => node['type'] === 'array' && node['maxItems'] === undefined);
    expect(unbounded.map(([path]) => path)).toEqual([]);
  });

  test('keys of a list map are required, as the API server demands', () => {
    for (const [path, node] of nodes) {
      const keys = (node['x-kubernetes-list-map-keys'] ?? []) as string[];
      const items = (node['items'] ?? {}) as { required?: string[] };
      for (const key of keys)
        expect({ path, required: items.required }).toMatchObject({ required: expect.arrayContaining([key]) });
    }
  });

  test('no column is a date that lies in the future, which kubectl prints as <invalid>', () => {
    expect(kind.columns.filter((c) => c.type === 'date').map((c) => c.jsonPath)).toEqual(['.metadata.creationTimestamp']);
  });
});

test('each kind has a file of its own', () => {
  expect(new Set(crds().map((c) => c.file)).size).toBe(KINDS.length);
});
