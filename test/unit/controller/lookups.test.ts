import { describe, expect, test } from '@jest/globals';
import { Lookups } from '../../../src/controller/lookups.js';
import { FakeClock } from '../kube/fake-clock.js';
import { bodyDigest, manifestBody, MemoryRegistry } from '../images/support.js';
import { makePolicy } from '../rewrite/builders.js';
import { prewarm, SOURCE, T0 } from './fixtures.js';

describe('which image is warmed for a gang in a namespace with a policy for variants', () => {
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
  const rows: [string, string | undefined, object, string][] = [
    ['positive control: its Pods are given the variant', undefined, variant, 'accelerated'],
    ['its Pods are not rewritten and run the plain image', 'namespace team is out of scope', source, 'pinned'],
  ];
  test.each(rows)('%s', async (_title, unpinned, body, outcome) => {
    const port = new MemoryRegistry().set(SOURCE, source).set(`${SOURCE}-esgz`, variant);
    const lookups = new Lookups({
      registry: () => port,
      policies: () => [policy],
      namespaceLabels: () => ({}),
      nodeClasses: () => undefined,
      runtimeClass: () => undefined,
      clock: new FakeClock(T0),
    });
    await lookups.look('team/p', prewarm(), [{ source: SOURCE, fresh: false }], { platforms: [], unpinned });
    expect(lookups.of('team/p').get(SOURCE)).toMatchObject({
      ok: true,
      outcome,
      digest: bodyDigest(source),
      resolved: `reg.example.com/train@${bodyDigest(body)}`,
    });
  });
});
