import { describe, expect, test } from '@jest/globals';
import type { PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import { Lookups } from '../../../src/controller/lookups.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import { landingOfSource } from '../../../src/controller/target-landing.js';
import type { RuntimeClassFacts } from '../../../src/placement/capability.js';
import { FakeClock } from '../kube/fake-clock.js';
import { bodyDigest, manifestBody, MemoryRegistry } from '../images/support.js';
import { viewOf } from '../placement/classes.js';
import { node } from '../placement/nodes.js';
import { makePolicy } from '../rewrite/builders.js';
import { prewarm, SOURCE, T0 } from './fixtures.js';

const source = manifestBody({ name: 'source' });
const variant = manifestBody({
  name: 'variant',
  marked: 2,
  annotations: { 'harbinger.dev/source-digest': bodyDigest(source) },
});
const policy = makePolicy('p', {
  mode: 'Enforce',
  whenPrewarmed: 'Variant',
  variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }],
});

async function look(unpinned: string | undefined, view?: NodeClasses): Promise<unknown> {
  const port = new MemoryRegistry().set(SOURCE, source).set(`${SOURCE}-esgz`, variant);
  const lookups = new Lookups({
    registry: () => port,
    policies: () => [policy],
    namespaceLabels: () => ({}),
    nodeClasses: () => view,
    runtimeClass: () => undefined,
    clock: new FakeClock(T0),
  });
  await lookups.look('team/p', prewarm(), [{ source: SOURCE, fresh: false }], { platforms: [], unpinned });
  return lookups.of('team/p').get(SOURCE);
}
const is = (outcome: string, body: object): object => ({
  ok: true,
  outcome,
  digest: bodyDigest(source),
  resolved: `reg.example.com/train@${bodyDigest(body)}`,
});

describe('which image is warmed for a gang in a namespace with a policy for variants', () => {
  const rows: [string, string | undefined, object, string][] = [
    ['positive control: its Pods are given the variant', undefined, variant, 'accelerated'],
    ['its Pods are not rewritten and run the plain image', 'namespace team is out of scope', source, 'pinned'],
  ];
  test.each(rows)('%s', async (_title, unpinned, body, outcome) => {
    expect(await look(unpinned)).toMatchObject(is(outcome, body));
  });

  const quarantined = (namespace: string, body: object): NodeClasses => ({
    ...viewOf([node('a')]),
    publishedAt: T0,
    quarantined: [{ namespace, variant: bodyDigest(body), reason: 'ImageNotFound', message: 'gone', until: T0 + 1000 }],
  });
  test('nodes failed to pull the variant for Pods of this namespace: the plain image', async () => {
    expect(await look(undefined, quarantined('team', variant))).toMatchObject(is('pinned', source));
  });
  test('the control: nodes failed to pull it for Pods of another one', async () => {
    expect(await look(undefined, quarantined('other', variant))).toMatchObject(is('accelerated', variant));
  });
});

describe('where Pods of a gang can land', () => {
  const ready = { 'example.com/nydus': 'ready' };
  const taint = { key: 'lazy', value: '', effect: 'NoSchedule' };
  const nodes = [
    node('a', { labels: { pool: 'gpu', ...ready } }),
    node('b', { labels: { pool: 'cpu' } }),
    node('c', { labels: { pool: 'arm' }, arch: 'arm64', taints: [taint] }),
  ];
  const lazy: RuntimeClassFacts = { name: 'lazy', nodeSelector: ready, tolerations: [] };
  const open: RuntimeClassFacts = { name: 'open', tolerations: [{ key: 'lazy', operator: 'Exists' }] };
  const landing = (...targets: Partial<PrewarmTarget>[]) => {
    const made = targets.map((t, i) => ({ name: `t${i}`, images: [{ reference: SOURCE }], nodes: { selector: {} }, ...t }));
    return landingOfSource(prewarm({}, { targets: made }), SOURCE, {
      view: { ...viewOf(nodes), publishedAt: T0 },
      runtimeClass: (name) => [lazy, open].find((r) => r.name === name),
      now: T0,
    });
  };
  const affinity = [{ matchExpressions: [{ key: 'example.com/nydus', operator: 'In' as const, values: ['ready'] }] }];

  const rows: [string, Partial<PrewarmTarget>[], { platforms: string[]; now: boolean; later: boolean }][] = [
    ['no selector', [{}], { platforms: ['linux/amd64'], now: true, later: true }],
    [
      'a selector of capable nodes, which may gain others',
      [{ nodes: { selector: { matchLabels: { pool: 'gpu' } } } }],
      { platforms: ['linux/amd64'], now: false, later: true },
    ],
    [
      'an affinity that demands the capability',
      [{ nodes: { affinity } }],
      { platforms: ['linux/amd64'], now: false, later: false },
    ],
    ['the nodes of its RuntimeClass', [{ runtimeClassName: 'lazy' }], { platforms: ['linux/amd64'], now: false, later: false }],
    [
      'the tolerations of its RuntimeClass',
      [{ runtimeClassName: 'open' }],
      { platforms: ['linux/amd64', 'linux/arm64'], now: true, later: true },
    ],
    [
      'one podSet of two that may land elsewhere',
      [{ nodes: { affinity } }, {}],
      { platforms: ['linux/amd64'], now: true, later: true },
    ],
    [
      'named nodes, tainted ones too',
      [{ nodes: { names: ['c'] } }],
      { platforms: ['linux/amd64', 'linux/arm64'], now: true, later: true },
    ],
  ];
  test.each(rows)('%s', (_title, targets, { platforms, now, later }) => {
    const found = landing(...targets);
    expect({ platforms: found?.platforms, now: found?.now.nydus !== undefined, later: found?.later.nydus !== undefined }).toEqual(
      { platforms, now, later },
    );
  });
  test('podSets that run other images do not count', () => {
    const [own, other] = [{ nodes: { affinity } }, { images: [{ reference: 'other' }] }];
    expect(landing(own, other)?.now.nydus).toBeUndefined();
    expect(landing(other)).toBeUndefined();
  });
});
