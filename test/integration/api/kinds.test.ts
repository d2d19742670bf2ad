import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../../cluster/cluster.js';
import type { Draft } from '../../cluster/client.js';
import { run } from '../../cluster/exec.js';

const START_TIMEOUT_MS = 300_000;

const prewarm = (name: string, targets: unknown[]): Draft => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'ImagePrewarm',
  metadata: { name, namespace: 'default' },
  spec: { targets },
});
const target = (nodes: unknown, name = 'main'): unknown => ({ name, images: [{ reference: 'example.com/a:1' }], nodes });
const policy = (name: string, spec: Record<string, unknown>): Draft => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'AccelerationPolicy',
  metadata: { name },
  spec: { variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }], ...spec },
});

describe('the API server with the generated manifests', () => {
  let cluster: Cluster;
  const kubectl = (...args: string[]): Promise<string> =>
    run(join(cluster.runDir, 'bin/kubectl'), ['--kubeconfig', cluster.kubeconfig, ...args]);

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-api', registry: false, say: () => undefined });
    // Server-side apply is strict about fields that it does not know, and the API server about the cost of rules.
    await kubectl('apply', '--server-side', '-k', 'manifests');
    await kubectl('wait', '--for=condition=Established', 'crd', '-l', 'app.kubernetes.io/part-of=harbinger');
  }, START_TIMEOUT_MS);
  afterAll(() => cluster?.stop());

  test('a valid ImagePrewarm gets its defaults', async () => {
    const made = await cluster.client.create(prewarm('good', [target({ names: ['n1'] })]));
    expect(made['spec']).toMatchObject({ pin: 'AtRelease', retain: 'UntilGangStarts', suspend: false, spareNodes: 0 });
  });

  test.each<[string, Draft, RegExp]>([
    [
      'two targets of one name',
      prewarm('bad', [target({ names: ['a'] }), target({ names: ['b'] })]),
      /spec\.targets\[1\]: Duplicate value/,
    ],
    [
      'two ways to name nodes',
      prewarm('bad', [target({ names: ['a'], selector: {} })]),
      /exactly one of names, selector and affinity/,
    ],
    ['no way to name nodes', prewarm('bad', [target({ count: 3 })]), /exactly one of names, selector and affinity/],
    ['one node twice', prewarm('bad', [target({ names: ['a', 'a'] })]), /Duplicate value: "a"/],
    [
      'a runtime class that cannot exist',
      prewarm('bad', [{ ...(target({ names: ['a'] }) as object), runtimeClassName: 'Not_Valid' }]),
      /runtimeClassName.*should match/,
    ],
    ['a node that cannot exist', prewarm('bad', [target({ names: ['Node_1'] })]), /names\[0\].*should match/],
    ['no target', prewarm('bad', []), /spec\.targets.*at least 1 items/],
    ['a word that is none', policy('bad', { mode: 'Sometimes' }), /supported values: "Enforce", "Audit"/],
    ['a size that is no quantity', policy('bad', { maxImageSize: 'many' }), /spec\.maxImageSize.*should match/],
    [
      'a variant that is found nowhere',
      policy('bad', { variants: [{ format: 'estargz', discover: {} }] }),
      /exactly one of tagSuffix/,
    ],
    [
      'a Nydus image looked for in the index of the source',
      policy('bad', { variants: [{ format: 'nydus', discover: { index: true } }] }),
      /needs no rule, as nodes find it themselves/,
    ],
    [
      'a repository in another registry',
      policy('bad', { variants: [{ format: 'nydus', discover: { repositoryTemplate: 'other.example:5000/{repository}' } }] }),
      /repositoryTemplate.*should match/,
    ],
  ])('refuses %s and says why', async (_name, object, message) => {
    await expect(cluster.client.create(object)).rejects.toThrow(message);
  });

  test('the same objects without their mistake are accepted', async () => {
    await cluster.client.create(
      prewarm('twin', [
        { ...(target({ names: ['a.example'] }) as object), runtimeClassName: 'nydus' },
        target({ selector: {} }, 'other'),
      ]),
    );
    const variants = [
      { format: 'zstdchunked', discover: { index: true } },
      { format: 'nydus', discover: { repositoryTemplate: 'lazy/{repository}:{tag}-nydus' } },
    ];
    await cluster.client.create(policy('twin', { mode: 'Audit', maxImageSize: '30Gi', variants }));
  });

  test('status is written apart from spec', async () => {
    await cluster.client.patch('harbinger.dev/v1alpha1/ImagePrewarm', 'default/good', { status: { progress: '1/2' } });
    expect((await cluster.client.get('harbinger.dev/v1alpha1/ImagePrewarm', 'default/good'))['status']).toBeUndefined();
    const body = {
      status: {
        progress: '1/2',
        size: '3.1 GB',
        estimatedCompletionTime: '2099-01-01T00:00:00Z',
        nodes: { desired: 2, warm: 1, pulling: 1, pending: 0, failed: 0 },
      },
    };
    await cluster.client.patch('harbinger.dev/v1alpha1/ImagePrewarm', 'default/good', body, { subresource: 'status' });
    const wide = await kubectl('get', 'ipw', 'good', '-o', 'wide');
    expect(wide).toMatch(/READY +REASON +NODES +FAILED +GANG +QUEUE +SIZE +PLACEMENT +ETA +AGE/);
    expect(wide).toMatch(/1\/2 +0 .*3\.1 GB .*2099-01-01T00:00:00Z/);
  });

  test('kubectl explain says what every field of a target is for', async () => {
    const text = await kubectl('explain', 'imageprewarm.spec.targets');
    expect(text).toContain('One podSet: Pods that share images, secrets and eligible nodes.');
    expect(text).not.toContain('<no description>');
  });
});
