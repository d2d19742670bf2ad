import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LABEL } from '../../../src/api/names.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import type { Workload } from '../../fixtures/workloads/index.js';
import { OUTCOME_OF, WORKLOADS, contentOfAll, owner, pod, run } from '../../fixtures/workloads/index.js';
import { NS, decisionsOf, metricSum, mutated, policy, untilOutcome, verdictOf } from '../webhook/ground.js';
import type { Pushed } from './ground.js';
import { PLAIN, admit, bothNamespaces, imageAt, imagesOf, pushContent, remainder } from './ground.js';

const SETUP_MS = 300_000;
const WEBHOOK_MS = { budgets: { admissionMs: 2_500, eventLoopLagMs: 5_000 } };

/**
 * The Pods that operators make, sent through the real API server, once past the webhook and once without it: what comes back has to
 * differ by images, decisions and one label, and by nothing else.
 */
describe('workloads', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let host: string;
  const pushed = new Map<string, Pushed | undefined>();

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-workloads', say: () => undefined });
    ({ host } = cluster.registry);
    await cluster.client.apply(bothNamespaces());
    harbinger = await cluster.installHarbinger({
      controllers: 0,
      config: { registries: [{ host, plainHTTP: true, allowLocalAddresses: true }], ...WEBHOOK_MS },
    });
    // Nydus comes first and is nowhere: a rule that finds nothing must not end the search.
    const variants = ['nydus', 'estargz'].map((format) => ({
      format,
      discover: { tagSuffix: format === 'nydus' ? '-nydus' : '-esgz' },
    }));
    await cluster.client.apply(policy('all', { match: { images: [`${host}/**`] }, variants }));
    for (const [image, content] of contentOfAll()) pushed.set(image, await pushContent(imageAt(host, image), content));
    await untilOutcome(cluster, imageAt(host, 'busybox'), 'accelerated');
  }, SETUP_MS);
  afterAll(() => cluster?.stop());

  /** The Pod with every image that is one moved to the registry of the tests. */
  function moved(draft: Draft, { images }: Workload): Draft {
    const spec = structuredClone(draft['spec']) as Record<string, { image: string }[]>;
    for (const container of ['initContainers', 'containers'].flatMap((field) => spec[field] ?? [])) {
      if (images[container.image] === undefined) throw new Error(`${container.image} is not among the images of the workload`);
      if (images[container.image] !== 'no reference') container.image = imageAt(host, container.image);
    }
    return { ...draft, spec };
  }

  /** What each container has to be decided, from what the registry holds of its image. */
  function wanted(draft: Draft, { images, unlistedOwner }: Workload): object[] {
    const owners = draft.metadata['ownerReferences'] as { kind: string }[] | undefined;
    const left = unlistedOwner !== undefined && owners?.[0]?.kind === unlistedOwner;
    return imagesOf(draft).map(({ container, image }) => {
      const content = images[image] ?? 'absent';
      const source = content === 'no reference' ? image : imageAt(host, image);
      const variant = pushed.get(image)?.variantDigest;
      if (left) return { container, source, image: source, outcome: 'skipped-owner' };
      // By digest only: a tag could move between admission and pull.
      const repository = imageAt(host, image).replace(/:[^:/]*$/, '');
      return {
        container,
        source,
        outcome: OUTCOME_OF[content],
        image: variant === undefined ? source : `${repository}@${variant}`,
      };
    });
  }

  async function check(workload: Workload): Promise<void> {
    const before = await mutated(harbinger);
    for (const written of workload.pods) {
      const draft = moved(written, workload);
      const [seen, plain] = await Promise.all([admit(cluster, draft, NS), admit(cluster, draft, PLAIN)]);
      const want = wanted(written, workload);
      expect(decisionsOf(seen)).toEqual(want.map((w) => expect.objectContaining(w)));
      expect(imagesOf(seen).map((i) => i.image)).toEqual(want.map((w) => (w as { image: string }).image));
      expect(imagesOf(plain)).toEqual(imagesOf(draft));
      expect(seen.metadata.labels?.[LABEL.accelerated]).toBe(
        want.some((w) => 'outcome' in w && w.outcome === 'accelerated') ? 'true' : undefined,
      );
      expect(remainder(seen)).toEqual(remainder(plain));
    }
    // Positive control: the webhook was called for each of them, and answered.
    expect(await mutated(harbinger)).toBe(before + workload.pods.length);
  }

  test.each(WORKLOADS.map((workload) => [`${workload.id} ${workload.what}`, workload] as const))('%s', (_title, workload) =>
    check(workload),
  );

  const PAUSE = 'gke.gcr.io/pause:3.8@sha256:880e63f9';

  test('A-41 a DaemonSet Pod in kube-system is never seen; elsewhere its tag and digest are read as both', async () => {
    const source = await pushContent(imageAt(host, 'gke.gcr.io/pause:3.8'), 'with variant');
    const image = `${imageAt(host, 'gke.gcr.io/pause:3.8')}@${source?.sourceDigest ?? ''}`;
    const parts = {
      owner: owner('apps/v1/DaemonSet', 'installer'),
      spec: { hostNetwork: true, tolerations: [{ operator: 'Exists' }] },
    };
    const draft = pod('nccl-rdma-installer-x1', [run('pause', image)], parts);
    const system = await admit(cluster, draft, 'kube-system');
    expect([imagesOf(system)[0]?.image, system.metadata.annotations]).toEqual([image, undefined]);
    expect(await verdictOf(cluster, 'nccl-rdma-installer-x1')).toBe('not called');
    const seen = await admit(cluster, draft, NS);
    expect(decisionsOf(seen)).toMatchObject([
      { source: image, outcome: 'accelerated', image: `${imageAt(host, 'gke.gcr.io/pause')}@${source?.variantDigest ?? ''}` },
    ]);
    // A digest that is cut short, as in logs and in documents, names nothing.
    const short = await admit(cluster, pod('cut', [run('pause', PAUSE)]), NS);
    expect(decisionsOf(short)).toMatchObject([{ source: PAUSE, outcome: 'unparsable', image: PAUSE }]);
  });

  test('an empty image is refused by the API server in its own words, whether the webhook sees it or not', async () => {
    const draft = pod('empty', [run('sglang', '')], { init: [run('installer', imageAt(host, 'busybox'))] });
    const refusal = (ns: string): Promise<string> =>
      admit(cluster, draft, ns).then(
        () => 'created',
        (error: Error) => error.message.replace(/^.*?: 422 /, '').replaceAll(`"${ns}"`, 'NS'),
      );
    const [seen, plain] = [await refusal(NS), await refusal(PLAIN)];
    expect(seen).toBe(plain);
    expect(seen).toContain('spec.containers[0].image: Required value');
  });

  test('no image of a workload that is no reference made the webhook ask a registry', async () => {
    const [webhook] = harbinger.webhooks;
    if (webhook === undefined) throw new Error('a replica is needed');
    const asked = (): Promise<number> => metricSum(webhook, 'harbinger_registry_requests_total');
    const before = await asked();
    for (const image of ['<CHANGE ME>', '<image>', '${REPO_URI}']) await admit(cluster, pod('odd', [run('main', image)]), NS);
    expect(await asked()).toBe(before);
    // Negative twin: an image that is new to it makes it ask.
    const fresh: Raw = await admit(cluster, pod('new', [run('main', imageAt(host, 'never/seen:1'))]), NS);
    expect(decisionsOf(fresh)).toMatchObject([{ outcome: 'registry-error' }]);
    expect(await asked()).toBeGreaterThan(before);
  });
});
