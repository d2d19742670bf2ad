import { describe, expect, test } from '@jest/globals';
import { parseReference } from '../../../src/images/reference.js';
import type { Reference } from '../../../src/images/reference.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { LookupOptions } from '../../../src/images/registry-port.js';
import { landingOf } from '../../../src/placement/landing.js';
import type { Finding, Lookup } from '../../../src/rewrite/answer.js';
import { findAnswer } from '../../../src/rewrite/answer.js';
import { bodyDigest, indexBody, manifestBody, MemoryRegistry } from '../images/support.js';
import { nydusImage } from '../images/bodies.js';
import { NOW, named, NYDUS, viewOf } from '../placement/classes.js';
import { makePolicy } from './builders.js';

const IMAGE = 'r.example/team/app:v1';
const [amd, arm] = [manifestBody({ name: 'amd' }), manifestBody({ name: 'arm' })];
const both = indexBody([
  { platform: 'linux/amd64', body: amd },
  { platform: 'linux/arm64', body: arm },
]);
const marked = (name: string, source: object): object =>
  manifestBody({ name, marked: 2, annotations: { 'harbinger.dev/source-digest': bodyDigest(source) } });
const fast = marked('fast amd', amd);

function referenceOf(image: string): Reference {
  const reading = parseReference(image);
  if (!reading.ok) throw new Error(reading.problem);
  return reading.reference;
}

interface World {
  source: object;
  variant: object;
  spec?: Record<string, unknown>;
  /** Constraints of the Pod, on nodes that are all amd64; nothing is known of nodes where absent. */
  nodeSelector?: Record<string, string>;
  lookup?: Lookup;
  registry?: MemoryRegistry;
}
function ask({ source, variant, spec = {}, nodeSelector, lookup, registry = new MemoryRegistry() }: World): Promise<Finding> {
  registry.set(IMAGE, source).set(`${IMAGE}-esgz`, variant).add('r.example/team/app', amd, arm, fast);
  registry.setConfig((fast as { config: { digest: string } }).config.digest, 'linux/amd64');
  const landing =
    nodeSelector === undefined
      ? undefined
      : landingOf({ nodeSelector, tolerations: [] }, viewOf([named('a', {}), named('b', {})]), NOW);
  return findAnswer({ reference: referenceOf(IMAGE), policy: makePolicy('p', spec), landing, chain: [] }, registry, lookup);
}

describe('too large', () => {
  // An image of `layers` layers of 1,000 bytes each, and a config of 100.
  const rows: [string, number, string | undefined, string][] = [
    ['more compressed bytes than the limit', 5, '5k', 'too-large'],
    ['the control: fewer', 4, '5k', 'accelerated'],
    ['no limit', 5, undefined, 'accelerated'],
    ['binary units', 5, '5Ki', 'accelerated'],
  ];
  test.each(rows)('%s', async (_title, layers, maxImageSize, outcome) => {
    const source = manifestBody({ name: 'plain', layers });
    const spec = maxImageSize === undefined ? {} : { maxImageSize };
    const { answer } = await ask({ source, variant: marked('v', source), spec });
    expect(answer.outcome).toBe(outcome);
    if (outcome === 'too-large') expect(answer.message).toMatch(/compressed, more than maxImageSize 5k of the policy/);
  });
});

describe('a variant for amd64 of a source that has arm64 too, while all nodes are amd64', () => {
  const rows: [string, Record<string, string> | undefined, Record<string, unknown>, string][] = [
    ['is not enough: nodes of the other kind may join', {}, {}, 'platform-missing'],
    ['is enough where the Pod demands amd64', { 'kubernetes.io/arch': 'amd64' }, {}, 'accelerated'],
    ['is enough where the policy says that no other kind joins', {}, { nodePoolClosed: true }, 'accelerated'],
    ['is not enough where nothing is known of nodes', undefined, { nodePoolClosed: true }, 'platform-missing'],
  ];
  test.each(rows)('%s', async (_title, nodeSelector, spec, outcome) => {
    const world = { source: both, variant: fast, spec, ...(nodeSelector === undefined ? {} : { nodeSelector }) };
    expect((await ask(world)).answer.outcome).toBe(outcome);
  });
});

describe('the source as the caller knows it', () => {
  const [before, after] = [manifestBody({ name: 'before' }), manifestBody({ name: 'after' })];
  test('is what the variant is compared with, though its tag has moved', async () => {
    const registry = new MemoryRegistry().add('r.example/team/app', before);
    const world = { source: after, variant: marked('v', before), registry };
    const { answer } = await ask({ ...world, lookup: { sourceDigest: bodyDigest(before) } });
    expect(answer).toMatchObject({ outcome: 'accelerated', sourceDigest: bodyDigest(before) });
    expect((await ask(world)).answer).toMatchObject({ outcome: 'variant-stale', sourceDigest: bodyDigest(after) });
  });
});

describe('a variant that only capable nodes run, on nodes that are', () => {
  const source = manifestBody({ name: 'plain' });
  const nydus = nydusImage('n', bodyDigest(source));
  /** Denies everybody who comes without a credential. */
  class Private extends MemoryRegistry {
    override manifest(reference: Reference, options: LookupOptions = {}) {
      if (options.anonymous !== true) return super.manifest(reference, options);
      return Promise.reject(new RegistryError('who are you?', { outcome: 'auth-denied', host: reference.registry, status: 401 }));
    }
  }
  const spec = { variants: [{ format: 'nydus', discover: { tagSuffix: '-esgz' } }] };
  const find = (registry: MemoryRegistry, privateImages: boolean): Promise<Finding> => {
    registry.set(IMAGE, source).set(`${IMAGE}-esgz`, nydus);
    const view = viewOf([named('a', NYDUS.nodeSelector)], [{ ...NYDUS, ...(privateImages ? { privateImages } : {}) }]);
    const landing = landingOf({ nodeSelector: NYDUS.nodeSelector, tolerations: [] }, view, NOW);
    return findAnswer({ reference: referenceOf(IMAGE), policy: makePolicy('p', spec), landing, chain: [] }, registry);
  };
  const rows: [string, MemoryRegistry, boolean, string][] = [
    ['that anybody may read is used', new MemoryRegistry(), false, 'accelerated'],
    ['that is private is left, since nobody says that their snapshotters can read it', new Private(), false, 'node-incapable'],
    ['that is private is used where they can', new Private(), true, 'accelerated'],
  ];
  test.each(rows)('%s', async (_title, registry, privateImages, outcome) => {
    const { answer, variant } = await find(registry, privateImages);
    expect(answer.outcome).toBe(outcome);
    if (outcome === 'accelerated') expect(variant).toMatchObject({ format: 'nydus', portable: false });
  });
});
