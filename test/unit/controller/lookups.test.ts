import { describe, expect, test } from '@jest/globals';
import type { PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import { Lookups } from '../../../src/controller/images/lookups.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import type { Reference } from '../../../src/images/reference.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { LookupOptions } from '../../../src/images/registry-port.js';
import { landingOfSource } from '../../../src/controller/nodes/target-landing.js';
import type { RuntimeClassFacts } from '../../../src/placement/capability.js';
import { FakeClock } from '../kube/fake-clock.js';
import { bodyDigest, indexBody, manifestBody, MemoryRegistry } from '../images/support.js';
import { viewOf } from '../placement/classes.js';
import { node } from '../placement/nodes.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';
import { makePolicy } from '../rewrite/builders.js';
import { noSecrets, prewarm, SOURCE, T0 } from './fixtures.js';

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

interface World {
  unpinned?: string;
  view?: NodeClasses;
  /** Platforms of the nodes that are warmed. */
  platforms?: string[];
  port?: MemoryRegistry;
  used?: Policy;
}
async function look({ unpinned, view, platforms = [], port = registry(), used = policy }: World): Promise<unknown> {
  const facts = {
    registry: () => port,
    policies: () => [used],
    namespaceLabels: () => ({}),
    nodeClasses: () => view,
    runtimeClass: () => undefined,
    clock: new FakeClock(T0),
  };
  const lookups = new Lookups(facts, noSecrets);
  await lookups.look('team/p', prewarm(), [{ source: SOURCE, fresh: false }], { platforms, unpinned });
  return lookups.of('team/p').get(SOURCE);
}
const registry = (port = new MemoryRegistry()): MemoryRegistry => port.set(SOURCE, source).set(`${SOURCE}-esgz`, variant);
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
    expect(await look(unpinned === undefined ? {} : { unpinned })).toMatchObject(is(outcome, body));
  });

  const quarantined = (namespace: string, body: object): NodeClasses => ({
    ...viewOf([node('a')]),
    publishedAt: T0,
    quarantined: [{ namespace, variant: bodyDigest(body), reason: 'ImageNotFound', message: 'gone', until: T0 + 1000 }],
  });
  test('nodes failed to pull the variant for Pods of this namespace: the plain image', async () => {
    expect(await look({ view: quarantined('team', variant) })).toMatchObject(is('pinned', source));
  });
  test('the control: nodes failed to pull it for Pods of another one', async () => {
    expect(await look({ view: quarantined('other', variant) })).toMatchObject(is('accelerated', variant));
  });
});

describe('a variant for amd64 alone, of a source for two platforms, where amd64 nodes are warmed', () => {
  const [amd, arm] = [manifestBody({ name: 'amd' }), manifestBody({ name: 'arm' })];
  const both = indexBody([
    { platform: 'linux/amd64', body: amd },
    { platform: 'linux/arm64', body: arm },
  ]);
  const single = manifestBody({ name: 'single', marked: 2, annotations: { 'harbinger.dev/source-digest': bodyDigest(amd) } });
  const closed = makePolicy('p', { ...policy.spec, nodePoolClosed: true });
  const find = (arches: string[], used: Policy): Promise<unknown> => {
    const port = new MemoryRegistry().set(SOURCE, both).set(`${SOURCE}-esgz`, single).add('reg.example.com/train', amd, arm);
    port.setConfig((single as { config: { digest: string } }).config.digest, 'linux/amd64');
    const view = { ...viewOf(arches.map((arch) => node(arch, { arch }))), publishedAt: T0 };
    return look({ port, view, used, platforms: ['linux/amd64'] });
  };
  const rows: [string, string[], Policy, object][] = [
    [
      'is left where a member may land on arm64, which is only excluded from warming',
      ['amd64', 'arm64'],
      closed,
      { outcome: 'pinned' },
    ],
    ['is left where such nodes may join', ['amd64'], policy, { outcome: 'pinned' }],
    [
      'the control: is used where all nodes are amd64 and none of another kind joins',
      ['amd64'],
      closed,
      { outcome: 'accelerated', format: 'estargz', portable: true },
    ],
  ];
  test.each(rows)('%s', async (_title, arches, used, expected) => {
    // What is pulled is the image for amd64 in any case.
    expect(await find(arches, used)).toMatchObject({ ok: true, digest: bodyDigest(both), sizeBytes: 2100, ...expected });
  });
});

describe('what only the credential of Harbinger may read', () => {
  /** A registry with `forPods: false`: for Pods the own credential does not serve. */
  class Guarded extends MemoryRegistry {
    override manifest(reference: Reference, options: LookupOptions = {}) {
      if (options.forPod !== true || this.open) return super.manifest(reference, options);
      return Promise.reject(new RegistryError('forPods is false', { outcome: 'auth-denied', host: reference.registry }));
    }
    open = false;
  }
  test('is not shown to who creates a gang', async () => {
    expect(await look({ port: registry(new Guarded()) })).toEqual({
      ok: false,
      reason: 'AuthDenied',
      outcome: 'auth-denied',
      message: expect.stringMatching(/^forPods is false; no secrets here; .*name the image by digest/),
      at: T0,
    });
  });
  test('the control: with forPods it is, and every question is asked as one for a Pod', async () => {
    const port = new Guarded();
    port.open = true;
    expect(await look({ port: registry(port) })).toMatchObject(is('accelerated', variant));
    expect(port.options.filter((o) => o.forPod !== true)).toEqual([]);
  });
});

describe('what is recorded of a variant', () => {
  const named = (output: string): Policy => makePolicy('p', { ...policy.spec, output });
  test.each(['Digest', 'Tag', 'TagAndDigest'])('names bytes, also where the policy wants %s in Pods', async (output) => {
    expect(await look({ used: named(output) })).toMatchObject({
      ...is('accelerated', variant),
      format: 'estargz',
      portable: true,
    });
  });
  test('is none where the source is larger than the policy lets it be', async () => {
    expect(await look({ used: makePolicy('p', { ...policy.spec, maxImageSize: '1k' }) })).toMatchObject(is('pinned', source));
  });
});

describe('where Pods of a gang can land', () => {
  const ready = { 'example.com/nydus': 'ready' };
  const taint = { key: 'node-role.kubernetes.io/control-plane', value: '', effect: 'NoSchedule' };
  const nodes = [
    node('a', { labels: { pool: 'gpu', ...ready } }),
    node('b', { labels: { pool: 'cpu' } }),
    node('c', { labels: { pool: 'arm' }, arch: 'arm64', taints: [taint] }),
  ];
  const lazy: RuntimeClassFacts = { name: 'lazy', nodeSelector: ready, tolerations: [] };
  const open: RuntimeClassFacts = { name: 'open', tolerations: [{ key: taint.key, operator: 'Exists' }] };
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

test('nothing is remembered of images that a spec does not name any more, however often it is edited', async () => {
  const facts = {
    registry: () => registry(),
    policies: () => [],
    namespaceLabels: () => ({}),
    nodeClasses: () => undefined,
    runtimeClass: () => undefined,
    clock: new FakeClock(T0),
  };
  const lookups = new Lookups(facts, noSecrets);
  const named = (source: string) => lookups.look('team/p', naming(source), [{ source, fresh: false }], { platforms: [] });
  for (let i = 0; i < 100; i++) await named(`reg.example.com/train:v${i}`);
  expect([...lookups.of('team/p').keys()]).toEqual(['reg.example.com/train:v99']);
  await lookups.look('team/p', naming('reg.example.com/train:v99'), [], { platforms: [] });
  expect(lookups.of('team/p').size).toBe(1);
});
const naming = (reference: string) =>
  prewarm({}, { targets: [{ name: 'main', images: [{ reference }], nodes: { selector: {}, count: 3 } }] });
