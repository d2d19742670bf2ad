import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch } from 'rfc6902';
import { parseAllDocuments } from 'yaml';
import { INSTALL, LABEL } from '../../../src/api/names.js';
import { webhookConfiguration } from '../../../tools/generate/webhook-configuration.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { owner, pod as made, run } from '../../fixtures/workloads/index.js';
import {
  NS,
  POLICY,
  decisionsOf,
  imageOf,
  metric,
  mutated,
  pod,
  policy,
  pushPair,
  pushPlain,
  untilOutcome,
  verdictOf,
} from '../webhook/ground.js';
import type { Images } from '../webhook/ground.js';
import { arbitraryPod } from './arbitrary-pods.js';
import { Direct } from './direct.js';
import { PLAIN, admit, bothNamespaces, imagesOf, remainder } from './ground.js';
import { Injector } from './injector.js';
import { startTroubles } from './troubles.js';
import type { Trouble } from './troubles.js';

const POD = 'v1/Pod';
const OPERATED = 'Cluster.postgresql.cnpg.io';
/** The budget of an admission, and what a busy machine may add to it. */
const ANSWER_MS = 2_000;

/** Fits Pod Security `restricted`, which Harbinger's own namespace enforces. */
const RESTRICTED = {
  spec: { securityContext: { runAsNonRoot: true, runAsUser: 65_532, seccompProfile: { type: 'RuntimeDefault' } } },
  container: { securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } } },
};

/** Objects of the manifests by kind, as they are installed. */
const manifests = (): Draft[] =>
  parseAllDocuments(readFileSync('manifests/harbinger.yaml', 'utf8')).map((document) => document.toJS() as Draft);

describe('complaints about comparable webhooks', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let direct: Direct;
  let app: Images;
  let host: string;
  let troubles: Trouble[] = [];

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-cases', say: () => undefined });
    ({ host } = cluster.registry);
    await cluster.client.apply(bothNamespaces());
    app = await pushPair(cluster, 'team/app');
    troubles = await startTroubles();
  }, 300_000);
  afterAll(async () => {
    direct?.close();
    for (const { close } of troubles) close();
    await cluster?.stop();
  });

  const config = (more: object = {}): Record<string, unknown> => ({
    registries: [host, ...troubles.map((t) => t.host)].map((h) => ({ host: h, plainHTTP: true, allowLocalAddresses: true })),
    budgets: { eventLoopLagMs: 2_000 },
    ...more,
  });
  const variantOf = ({ source, variantDigest }: Images): string => `${source.replace(/:v1$/, '')}@${variantDigest}`;

  test('H-08 an installed webhook without a replica holds up no Pod, least of all its own', async () => {
    const objects = manifests();
    const order = ['Namespace', 'ServiceAccount', 'MutatingWebhookConfiguration', 'Service', 'Deployment'];
    for (const kind of order) await cluster.client.apply(objects.filter((o) => o.kind === kind));
    /** What the API server notes of a Pod that it takes: how long that took it, and what its webhooks did. */
    const noted = async (name: string, ns: string): Promise<{ ms: number; notes: string[] }> => {
      await cluster.client.create(pod(app.source, { namespace: ns, metadata: { name }, ...RESTRICTED }));
      await verdictOf(cluster, name);
      const events = cluster.audit.query({ verb: 'create', resource: 'pods', name });
      return {
        ms: Math.max(...events.map((e) => e.endedAt - e.at)),
        notes: events.flatMap((e) => Object.keys(e.annotations)),
      };
    };
    for (const ns of ['kube-system', INSTALL.namespace]) {
      const { ms, notes } = await noted(`early-${ns}`, ns);
      expect(notes.filter((note) => note.includes('webhook'))).toEqual([]);
      expect(ms).toBeLessThan(1_000);
    }
    // The Deployment's own Pods are made, too.
    await until('Pods of the webhook', async () => {
      const pods = await cluster.client.list(POD, { namespace: INSTALL.namespace });
      return pods.some((p) => p.metadata.ownerReferences?.[0]?.kind === 'ReplicaSet') || notYet(pods.length);
    });
    // Positive control: a Pod that the webhook serves is called for in vain, and created all the same.
    const called = await noted('early-team', NS);
    expect(called.ms).toBeLessThan(5_000);
    expect(called.notes).toContainEqual(expect.stringMatching(/^failed-open\.mutation\.webhook/));
    for (const { name } of objects.filter((o) => o.kind === 'Deployment').map((o) => o.metadata)) {
      await cluster.client.delete('apps/v1/Deployment', `${INSTALL.namespace}/${name ?? ''}`);
    }
    const [served] = webhookConfiguration('ours', { operator: 'NotIn', value: 'disabled' })['webhooks'] as [
      { namespaceSelector: unknown },
    ];
    expect(served.namespaceSelector).toEqual({
      matchExpressions: [
        { key: LABEL.accelerate, operator: 'NotIn', values: ['disabled'] },
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: expect.arrayContaining(['kube-system', 'ours']) },
      ],
    });
  }, 120_000);

  describe('with the webhook', () => {
    beforeAll(async () => {
      harbinger = await cluster.installHarbinger({ controllers: 0, config: config() });
      direct = await Direct.of(cluster, harbinger.webhookUrl);
      await cluster.client.apply(policy('all', { match: { images: [`${host}/**`, ...troubles.map((t) => `${t.host}/**`)] } }));
      await untilOutcome(cluster, app.source, 'accelerated');
    }, 120_000);

    test('H-01 an operator that makes its Pods itself and compares their images makes each of them once', async () => {
      await cluster.client.apply(CLUSTER_CRD);
      /** Rounds of an operator: makes the Pod where it is missing, deletes it where its image is another than asked for. */
      const operate = async (name: string, rounds: number): Promise<number> => {
        const { metadata } = await cluster.client.create({
          apiVersion: 'postgresql.cnpg.io/v1',
          kind: 'Cluster',
          metadata: { name, namespace: NS },
        });
        const controller = { apiVersion: 'postgresql.cnpg.io/v1', kind: 'Cluster', name, uid: metadata.uid, controller: true };
        let creations = 0;
        for (let round = 0; round < rounds; round++) {
          const live = await cluster.client.find(POD, `${NS}/${name}`);
          if (live === undefined) {
            await cluster.client.create(pod(app.source, { metadata: { name, ownerReferences: [controller] } }));
            creations++;
          } else if (imageOf(live) !== app.source) {
            await cluster.client.delete(POD, `${NS}/${name}`, { gracePeriodSeconds: 0 });
          }
        }
        return creations;
      };
      const before = await mutated(harbinger);
      expect(await operate('pg', 8)).toBe(1);
      expect(decisionsOf(await cluster.client.get(POD, `${NS}/pg`))).toMatchObject([
        { outcome: 'skipped-owner', image: app.source, message: expect.stringContaining('rewrite.owners') },
      ]);
      expect(await mutated(harbinger)).toBe(before + 1);
      // Negative twin: were the operator allowed, the loop would not end.
      harbinger.writeConfig(config({ rewrite: { owners: [OPERATED] } }));
      const probe = made('probe', [run('app', app.source)], { owner: owner('postgresql.cnpg.io/v1/Cluster', 'x') });
      await until('the operator to be allowed', async () => imageOf(await admit(cluster, probe, NS)) !== app.source);
      expect(await operate('pg-looping', 8)).toBe(4);
      harbinger.writeConfig(config());
      await until('the operator to be left', async () => imageOf(await admit(cluster, probe, NS)) === app.source);
    }, 150_000);

    test('H-02 a sidecar that another webhook adds after ours is rewritten as well, and a third call changes nothing', async () => {
      const proxy = await pushPair(cluster, 'istio/proxyv2');
      const injector = await Injector.start(cluster, proxy.source);
      try {
        const admitted = await until('the injector to be called', async () => {
          const seen = await cluster.client.create(
            pod(app.source, { metadata: { name: `mesh-${injector.calls}`, labels: injector.label } }),
          );
          return imagesOf(seen).length === 2 ? seen : notYet(imagesOf(seen));
        });
        expect(imagesOf(admitted).map((i) => i.image)).toEqual([variantOf(app), variantOf(proxy)]);
        expect(decisionsOf(admitted)).toMatchObject([
          { container: 'app', source: app.source, outcome: 'accelerated' },
          { container: 'istio-proxy', source: proxy.source, outcome: 'accelerated' },
        ]);
        // The API server notes each call: ours stands in both rounds, and mutated in both.
        const { name } = admitted.metadata;
        const calls = await until('the audit event', () => {
          const notes = cluster.audit
            .query({ verb: 'create', resource: 'pods', name })
            .flatMap((e) => Object.values(e.annotations));
          const ours = notes
            .filter((n) => n.includes(INSTALL.webhookName))
            .map((n) => (JSON.parse(n) as { mutated: boolean }).mutated);
          return ours.length > 1 ? ours : notYet(notes);
        });
        expect(calls).toEqual([true, true]);
        expect(await direct.review(admitted)).toMatchObject({ allowed: true, patch: [] });
      } finally {
        await cluster.client.delete('admissionregistration.k8s.io/v1/MutatingWebhookConfiguration', 'injector');
        injector.close();
      }
    });

    test('H-05 patches apply where a Pod has no annotations, none in its map, or keys with a slash', async () => {
      const metadata: Record<string, unknown>[] = [
        {},
        { annotations: {} },
        { annotations: { 'example.com/a.b': '1' }, labels: { 'example.com/x': 'y' } },
      ];
      for (const [i, more] of metadata.entries()) {
        const draft = pod(app.source, { metadata: { name: `paths-${i}`, ...more } });
        const { patch } = await direct.review(draft);
        // A strict library and the real API server agree on what comes of the same patch.
        const mine = structuredClone(draft) as unknown as Raw;
        expect(applyPatch(mine, patch).filter((problem) => problem !== null)).toEqual([]);
        const theirs = await admit(cluster, draft, NS);
        expect([imagesOf(mine), mine.metadata.annotations, mine.metadata.labels]).toEqual([
          imagesOf(theirs),
          theirs.metadata.annotations,
          theirs.metadata.labels,
        ]);
        expect(imageOf(theirs)).toBe(variantOf(app));
        // The key is escaped where it stands in a path; the map is added whole where it is missing.
        const added = patch.filter((op) => op.op === 'add').map((op) => op.path);
        expect(added).toContain(
          more['annotations'] === undefined ? '/metadata/annotations' : '/metadata/annotations/harbinger.dev~1decisions',
        );
      }
    });

    test('H-06 each of three init containers and two containers has its own decision and its own place', async () => {
      const plain = `${host}/team/plain:v1`;
      await pushPlain(cluster, 'team/plain', 'v1');
      const draft = made('many', [run('a', plain), run('b', app.source)], {
        init: [run('i', app.source), run('s', plain, { restartPolicy: 'Always' }), run('j', app.source)],
      });
      const admitted = await admit(cluster, draft, NS);
      const variant = variantOf(app);
      expect(imagesOf(admitted).map((i) => i.image)).toEqual([variant, plain, variant, plain, variant]);
      expect(decisionsOf(admitted).map((d) => [d.container, d.outcome])).toEqual([
        ['i', 'accelerated'],
        ['s', 'variant-missing'],
        ['j', 'accelerated'],
        ['a', 'variant-missing'],
        ['b', 'accelerated'],
      ]);
      const { patch } = await direct.review(draft);
      expect(patch.filter((op) => op.op === 'replace').map((op) => op.path)).toEqual([
        '/spec/initContainers/0/image',
        '/spec/initContainers/2/image',
        '/spec/containers/1/image',
      ]);
    });

    test('H-07 a registry that hangs, denies, fails, resets or is not found denies no Pod, and 200 at once wait no longer than one', async () => {
      // Connections first: 200 handshakes at once are the load of this test, not of an API server.
      await Promise.all(Array.from({ length: 200 }, () => direct.review(pod('x y'))));
      for (const { what, host: at, calls } of troubles) {
        const image = `${at}/team/app:v1`;
        const replies = await Promise.all(Array.from({ length: 200 }, () => direct.review(pod(image))));
        const slowest = Math.max(...replies.map((r) => r.ms));
        expect({ what, allowed: replies.every((r) => r.allowed), slowest, ok: slowest < ANSWER_MS }).toMatchObject({
          allowed: true,
          ok: true,
        });
        expect(replies.flatMap((r) => r.patch).filter((op) => op.path.endsWith('/image'))).toEqual([]);
        const admitted = await admit(cluster, pod(image), NS);
        expect({ what, image: imageOf(admitted), outcomes: decisionsOf(admitted).map((d) => d.outcome) }).toEqual({
          what,
          image,
          outcomes: [expect.stringMatching(/^(registry-error|auth-denied|budget-exceeded|circuit-open)$/)],
        });
        if (what.includes('hangs') || what.includes('name')) continue;
        // Trouble that answers is remembered for a moment: the Pods after it make no call, and do not wait.
        const before = calls();
        const later = await Promise.all(Array.from({ length: 50 }, () => direct.review(pod(image))));
        expect({ what, calls: calls() - before, slow: later.filter((r) => r.ms > 900).length }).toEqual({
          what,
          calls: 0,
          slow: 0,
        });
      }
      // Positive control: the registry without trouble was not held up by the others.
      expect(imageOf(await admit(cluster, pod(app.source), NS))).toBe(variantOf(app));
    }, 150_000);

    test('H-09 a dry run gives the same Pod as the real one and leaves nothing behind', async () => {
      const own = await pushPair(cluster, 'team/dry');
      await cluster.client.apply(policy('dry', { priority: 9, match: { images: [own.source.replace(/:v1$/, '')] } }));
      await untilOutcome(cluster, own.source, 'accelerated');
      const draft = pod(own.source, { metadata: { name: 'dry' } });
      const dry = await admit(cluster, draft, NS);
      expect(await cluster.client.find(POD, `${NS}/dry`)).toBeUndefined();
      const counted = async (): Promise<number> =>
        Number((await cluster.client.get(POLICY, 'dry'))['status']?.decisions?.accelerated ?? 0);
      const written = async (): Promise<number> =>
        (
          await Promise.all(
            ['harbinger.dev/v1alpha1/ImagePrewarm', 'events.k8s.io/v1/Event'].map((kind) =>
              cluster.client.list(kind, { namespace: NS }),
            ),
          )
        ).flat().length;
      expect([await counted(), await written()]).toEqual([0, 0]);
      // Negative twin: a Pod that is created is counted; had the dry run been, there would be two.
      const real = await cluster.client.create(draft);
      expect([imageOf(dry), decisionsOf(dry), remainder(dry)]).toEqual([imageOf(real), decisionsOf(real), remainder(real)]);
      await until('the policy to count', async () => (await counted()) > 0 || notYet('nothing counted'), { timeoutMs: 90_000 });
      expect(await counted()).toBe(1);
      const [installed] = manifests().find((o) => o.kind === 'MutatingWebhookConfiguration')?.['webhooks'] as [
        { sideEffects: string },
      ];
      expect(installed.sideEffects).toBe('None');
    }, 240_000);

    test('H-10 tools that compare with a repository see no drift, and updates of a Pod are not ours', async () => {
      const labels = { app: 'web' };
      const template = {
        metadata: { labels },
        spec: { schedulerName: 'nobody', containers: [{ name: 'app', image: app.source }] },
      };
      const tracking = { 'argocd.argoproj.io/tracking-id': 'shop:apps/Deployment:team/web' };
      await cluster.client.apply({
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'web', namespace: NS, annotations: tracking },
        spec: { replicas: 1, selector: { matchLabels: labels }, template },
      });
      const [replica] = await until('the Pod of the Deployment', async () => {
        const pods = await cluster.client.list(POD, { namespace: NS, labelSelector: 'app=web' });
        return pods.length === 1 ? pods : notYet(pods.length);
      });
      expect(replica && imageOf(replica)).toBe(variantOf(app));
      const live = await cluster.client.get('apps/v1/Deployment', `${NS}/web`);
      expect(imageOf(live['spec'].template as Raw)).toBe(app.source);
      // A bare Pod is what the repository says; (negative twin) without the mark it is rewritten.
      const bare = await cluster.client.create(pod(app.source, { metadata: { name: 'tracked', annotations: tracking } }));
      expect([imageOf(bare), decisionsOf(bare)[0]?.outcome]).toEqual([app.source, 'skipped-gitops']);
      expect(imageOf(await admit(cluster, pod(app.source), NS))).toBe(variantOf(app));
      const next = await pushPair(cluster, 'team/next');
      const since = Date.now();
      const updated = await cluster.client.patch(
        POD,
        `${NS}/tracked`,
        [{ op: 'replace', path: '/spec/containers/0/image', value: next.source }],
        { type: 'json' },
      );
      expect(imageOf(updated)).toBe(next.source);
      const [update] = await until('the audit event of the update', () => {
        const found = cluster.audit.query({ verb: 'patch', resource: 'pods', name: 'tracked', since: since - 1_000 });
        return found.length > 0 ? found : notYet('none');
      });
      expect(Object.keys(update?.annotations ?? {}).filter((key) => key.includes('webhook'))).toEqual([]);
    }, 150_000);

    test('whatever Pod comes, only images, decisions and one label differ from what it is without the webhook', async () => {
      await pushPlain(cluster, 'team/plain', 'v1');
      const images = [app.source, `${host}/team/plain:v1`, `${host}/team/absent:v1`, 'nginx', '<image>', `${variantOf(app)}`];
      let rewritten = 0;
      await fc.assert(
        fc.asyncProperty(arbitraryPod(images), async (draft) => {
          const refusal = (error: Error): string =>
            error.message.replace(/^.*?: (?=4\d\d )/, '').replaceAll(/any-[a-z0-9]{5}/g, 'any');
          const [seen, plain] = await Promise.all([NS, PLAIN].map((ns) => admit(cluster, draft, ns).catch(refusal)));
          if (typeof seen !== 'object' || typeof plain !== 'object') return expect(seen).toEqual(plain);
          expect(remainder(seen)).toEqual(remainder(plain));
          expect(imagesOf(plain)).toEqual(imagesOf(draft));
          const decisions = decisionsOf(seen);
          for (const [i, { container, image }] of imagesOf(draft).entries()) {
            const now = imagesOf(seen)[i]?.image;
            if (now === image) continue;
            rewritten++;
            expect(decisions).toContainEqual(
              expect.objectContaining({ container, source: image, image: now, outcome: 'accelerated' }),
            );
          }
          const label = plain.metadata.labels?.[LABEL.accelerated];
          const accelerated = decisions.some((d) => d.outcome === 'accelerated');
          return expect(seen.metadata.labels?.[LABEL.accelerated]).toBe(label ?? (accelerated ? 'true' : undefined));
        }),
        // The same Pods every time: of others few may happen to have an image with a variant.
        { numRuns: 60, seed: 20_261_201 },
      );
      // Positive control: the Pods were not all left.
      expect(rewritten).toBeGreaterThan(5);
    }, 150_000);

    test('the webhook answered all of this without an error of its own', async () => {
      const [webhook] = harbinger.webhooks;
      expect(webhook && (await metric(webhook, 'harbinger_admission_requests_total', '{result="mutated"}'))).toBeGreaterThan(100);
      for (const result of ['failed', 'garbage'])
        expect(webhook && (await metric(webhook, 'harbinger_admission_requests_total', `{result="${result}"}`))).toBe(0);
      expect(webhook && (await metric(webhook, 'harbinger_admission_unproven_patches_total'))).toBe(0);
      expect(webhook?.logs()).not.toContain('patch might not apply');
    });
  });
});

/** Just enough of a kind for the garbage collector to know the owner. */
const CLUSTER_CRD: Draft = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'clusters.postgresql.cnpg.io' },
  spec: {
    group: 'postgresql.cnpg.io',
    scope: 'Namespaced',
    names: { kind: 'Cluster', plural: 'clusters', singular: 'cluster' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};
