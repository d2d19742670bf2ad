import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import type { Images } from './ground.js';
import {
  ACCELERATED,
  DECISIONS,
  NS,
  POLICY,
  decisionsOf,
  imageOf,
  metric,
  mutated,
  namespace,
  pod,
  policy,
  pushPair,
  pushPlain,
  untilOutcome,
  verdictOf,
} from './ground.js';

/** A busy test machine stalls processes; what that does to admissions is not what these tests are about. */
const BUDGETS = { eventLoopLagMs: 2_000 };

/** A registry that takes connections and never says a word. */
async function silentRegistry(): Promise<{ host: string; server: Server }> {
  const server = createServer((socket) => socket.on('error', () => undefined));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { host: `127.0.0.1:${(server.address() as { port: number }).port}`, server };
}

describe('admission', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let app: Images;
  let silent: { host: string; server: Server };
  let host: string;
  const create = (image: string, parts: Parameters<typeof pod>[1] = {}): Promise<Raw> => cluster.client.create(pod(image, parts));

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-admission', say: () => undefined });
    host = cluster.registry.host;
    silent = await silentRegistry();
    app = await pushPair(cluster, 'team/app');
    await cluster.client.apply([namespace(), namespace('opted-out', { 'harbinger.dev/accelerate': 'false' })]);
    const registries = [host, silent.host, '127.0.0.1:1'].map((h) => ({ host: h, plainHTTP: true, allowLocalAddresses: true }));
    harbinger = await cluster.installHarbinger({ controllers: 0, config: { registries, budgets: BUDGETS } });
    await cluster.client.apply(
      policy('all', {
        match: { images: [`${host}/**`, `${silent.host}/**`, '127.0.0.1:1/**'], excludeImages: [`${host}/excluded/**`] },
      }),
    );
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 300_000);
  afterAll(async () => {
    silent?.server.close();
    await cluster?.stop();
  });

  test('a Pod that nobody prewarmed gets the eStargz variant by digest', async () => {
    const admitted = await create(app.source);
    expect(imageOf(admitted)).toBe(`${host}/team/app@${app.variantDigest}`);
    expect(admitted.metadata.labels).toMatchObject({ [ACCELERATED]: 'true' });
    expect(decisionsOf(admitted)).toEqual([
      expect.objectContaining({
        container: 'app',
        source: app.source,
        outcome: 'accelerated',
        image: imageOf(admitted),
        sourceDigest: app.sourceDigest,
        policy: 'all',
        format: 'estargz',
      }),
    ]);
    expect(await verdictOf(cluster, admitted.metadata.name)).toBe('mutated');
    const line = harbinger.webhooks[0]
      ?.logs()
      .split('\n')
      .filter((l) => l.includes('images changed'))
      .at(-1);
    expect(JSON.parse(line ?? '{}')).toMatchObject({
      pod: admitted.metadata.name,
      uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
      namespace: NS,
    });
  });

  test('the admitted Pod, created again as it came back, stays as it is', async () => {
    const first = await create(app.source);
    const { annotations, labels } = first.metadata;
    const again = await create(imageOf(first), { metadata: { annotations, labels } });
    expect([imageOf(again), again.metadata.annotations, again.metadata.labels]).toEqual([imageOf(first), annotations, labels]);
    expect(await verdictOf(cluster, again.metadata.name)).toBe('called');
  });

  test('a forged decisions annotation is overwritten and never followed', async () => {
    const forged = JSON.stringify([
      { container: 'app', source: `${host}/team/evil:v1`, outcome: 'accelerated', image: app.source },
    ]);
    const admitted = await create(app.source, { metadata: { annotations: { [DECISIONS]: forged } } });
    expect(decisionsOf(admitted)).toMatchObject([{ source: app.source, outcome: 'accelerated' }]);
  });

  test.each<[string, string, () => Promise<string>]>([
    [
      'without a record of its source',
      'freshness-unknown',
      async () => (await pushPair(cluster, 'team/unrecorded', false)).source,
    ],
    [
      'made from another source',
      'variant-stale',
      async () => {
        const pair = await pushPair(cluster, 'team/moved');
        await pushPlain(cluster, 'team/moved', 'v1', 'a new release');
        return pair.source;
      },
    ],
    [
      'that is not there',
      'variant-missing',
      async () => `${host}/team/plain@${await pushPlain(cluster, 'team/plain', 'v1')}`.replace(/@.*/, ':v1'),
    ],
    ['that no policy asks for', 'no-policy', () => Promise.resolve(`${host}/excluded/app:v1`)],
  ])('a variant %s leaves the image alone: %s', async (_, outcome, make) => {
    const before = await mutated(harbinger);
    const image = await make();
    const admitted = await create(image);
    expect(imageOf(admitted)).toBe(image);
    expect(decisionsOf(admitted)).toMatchObject([{ source: image, image, outcome }]);
    expect(admitted.metadata.labels ?? {}).not.toHaveProperty(ACCELERATED);
    // Positive control: the webhook was called, and it wrote its reason.
    expect(await mutated(harbinger)).toBe(before + 1);
  });

  test('members of a prewarmed gang run the recorded digest, also after the tag moved', async () => {
    const recorded = await pushPlain(cluster, 'team/gang', 'v1');
    const image = `${host}/team/gang:v1`;
    const container = { name: 'main', image };
    const template = {
      spec: {
        restartPolicy: 'Never',
        schedulerName: 'nobody',
        containers: [container],
        initContainers: [{ name: 'init', image }],
      },
    };
    const job = await cluster.client.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'gang', namespace: NS },
      spec: { suspend: true, parallelism: 2, completions: 2, template },
    });
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'gang', namespace: NS },
      spec: {
        gangRef: { apiGroup: 'batch', kind: 'Job', name: 'gang', uid: job.metadata.uid },
        targets: [{ name: 'main', images: [{ reference: image }], nodes: { names: ['n'] } }],
      },
    });
    const resolved = `${host}/team/gang@${recorded}`;
    await cluster.client.patch(
      'harbinger.dev/v1alpha1/ImagePrewarm',
      `${NS}/gang`,
      { status: { targets: [{ name: 'main', images: [{ source: image, resolved, digest: recorded, outcome: 'pinned' }] }] } },
      { subresource: 'status' },
    );
    const moved = await pushPlain(cluster, 'team/gang', 'v1', 'the tag moved');
    await cluster.client.patch('batch/v1/Job', `${NS}/gang`, { spec: { suspend: false } });
    const pods = await until('the Pods of the gang', async () => {
      const all = await cluster.client.list('v1/Pod', { namespace: NS, labelSelector: 'job-name=gang' });
      return all.length === 2 ? all : notYet(all.length);
    });
    expect(moved).not.toBe(recorded);
    for (const member of pods) {
      expect([imageOf(member), member['spec'].initContainers[0].image]).toEqual([resolved, resolved]);
      expect(decisionsOf(member)).toMatchObject([
        { outcome: 'pinned', source: image, prewarm: `${NS}/gang` },
        { outcome: 'pinned' },
      ]);
      expect(member.metadata.labels).not.toHaveProperty(ACCELERATED);
    }
    // Negative twin: a Pod outside the gang is not pinned by its record.
    expect(decisionsOf(await create(image))).toMatchObject([{ outcome: 'variant-missing', image }]);
    // Pods of a JobSet stand two owners below it and name it by a label; what they mount was warmed as well.
    const volumes = [{ name: 'data', image: { reference: image } }];
    const labels = { 'jobset.sigs.k8s.io/jobset-uid': job.metadata.uid ?? '' };
    const below = await create(image, { metadata: { labels }, spec: { volumes } });
    expect([imageOf(below), below['spec'].volumes[0].image.reference]).toEqual([resolved, resolved]);
    expect(decisionsOf(below)).toMatchObject([
      { outcome: 'pinned' },
      { container: 'volume/data', outcome: 'pinned', source: image },
    ]);
    const outside = await create(image, { spec: { volumes } });
    expect(outside['spec'].volumes[0].image.reference).toBe(image);
  });

  test('an image above maxImageSize of its policy is left alone, with both sizes', async () => {
    const { source } = await pushPair(cluster, 'team/large');
    const limited = policy('limited', { priority: 5, match: { images: [`${host}/team/large`] }, maxImageSize: '10k' });
    await cluster.client.apply(limited);
    await untilOutcome(cluster, source, 'too-large');
    expect(decisionsOf(await create(source))).toMatchObject([
      {
        outcome: 'too-large',
        image: source,
        policy: 'limited',
        message: expect.stringMatching(/\d kB compressed, more than maxImageSize 10k/),
      },
    ]);
    await cluster.client.delete(POLICY, 'limited');
    await untilOutcome(cluster, source, 'accelerated');
  });

  test.each<[string, Parameters<typeof pod>[1], string | undefined]>([
    ['by the Pod', { metadata: { annotations: { 'harbinger.dev/accelerate': 'false' } } }, undefined],
    ['by the namespace', { namespace: 'opted-out' }, undefined],
    ['by container', { metadata: { annotations: { 'harbinger.dev/skip-containers': 'other, app' } } }, 'skipped-container'],
    ['by pull policy', { container: { imagePullPolicy: 'Never' } }, 'skipped-pull-never'],
    ['as a puller', { metadata: { labels: { 'harbinger.dev/puller': 'x' } } }, undefined],
  ])('opt-out %s', async (_, parts, outcome) => {
    const admitted = await create(app.source, parts);
    expect(imageOf(admitted)).toBe(app.source);
    expect(decisionsOf(admitted)[0]?.outcome).toBe(outcome);
    // Positive control: the same image without the opt-out is rewritten.
    expect(imageOf(await create(app.source))).not.toBe(app.source);
  });

  test('a Pod can opt in again, and a namespace without the label is never seen', async () => {
    const optedIn = await create(app.source, {
      namespace: 'opted-out',
      metadata: { annotations: { 'harbinger.dev/accelerate': 'true' } },
    });
    expect(imageOf(optedIn)).not.toBe(app.source);
    const elsewhere = await create(app.source, { namespace: 'default' });
    expect(imageOf(elsewhere)).toBe(app.source);
    expect(await verdictOf(cluster, elsewhere.metadata.name)).toBe('not called');
  });

  test.each<[string, Record<string, unknown>, boolean]>([
    ['null annotations and labels', { annotations: null, labels: null }, true],
    ['names with /', { annotations: { 'example.com/a.b': '1' }, labels: { 'example.com/x': 'y' } }, true],
    ['255 KiB of annotations', { annotations: { big: 'x'.repeat(255 * 1024) } }, false],
  ])('a Pod with %s is rewritten', async (_, metadata, explained) => {
    const admitted = await create(app.source, { metadata });
    expect(imageOf(admitted)).toBe(`${host}/team/app@${app.variantDigest}`);
    expect(decisionsOf(admitted)).toHaveLength(explained ? 1 : 0);
    expect(admitted.metadata.annotations).toMatchObject(metadata['annotations'] ?? {});
  });

  test('a Pod that the API server refuses is refused in its own words, not for our patch', async () => {
    const refused = create(app.source, { metadata: { name: 'tilde', annotations: { 'example.com/a~b': '1' } } });
    await expect(refused).rejects.toThrow(/metadata\.annotations: Invalid value: "example\.com\/a~b"/);
  });

  test.each(['docker.io/Foo/bar', 'not an image', `${'a'.repeat(64)}`, 'x@sha256:1'])(
    'an image that cannot be parsed passes untouched: %s',
    async (image) => {
      const admitted = await create(image);
      expect(imageOf(admitted)).toBe(image);
      expect(decisionsOf(admitted)).toMatchObject([{ outcome: 'unparsable', image }]);
    },
  );

  test('everything else in the Pod is what it would be without the webhook', async () => {
    const rich = (ns: string) =>
      pod(app.source, {
        namespace: ns,
        metadata: { name: 'rich', annotations: { a: 'b' }, labels: { l: 'm' }, finalizers: ['example.com/f'] },
        spec: {
          initContainers: [
            {
              name: 'sidecar',
              image: `${host}/excluded/side:v1`,
              restartPolicy: 'Always',
              startupProbe: { exec: { command: ['true'] } },
            },
          ],
          volumes: [{ name: 'v', image: { reference: `${host}/excluded/model:v1`, pullPolicy: 'IfNotPresent' } }],
          schedulingGates: [{ name: 'example.com/gate' }],
          topologySpreadConstraints: [
            { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', matchLabelKeys: ['l'], labelSelector: {} },
          ],
          resources: { requests: { cpu: '1' } },
          hostUsers: false,
        },
        container: {
          resizePolicy: [{ resourceName: 'cpu', restartPolicy: 'NotRequired' }],
          volumeMounts: [{ name: 'v', mountPath: '/v' }],
        },
      });
    const plain = await cluster.client.create(rich('default'));
    const seen = await cluster.client.create(rich(NS));
    const strip = (object: Raw): unknown => {
      const { labels, annotations } = object.metadata;
      const spec = structuredClone(object['spec']);
      // The names of generated token volumes differ from Pod to Pod.
      const text = JSON.stringify(spec)
        .replace(/kube-api-access-[a-z0-9]{5}/g, 'token')
        .replace(imageOf(object), 'IMAGE');
      return {
        spec: JSON.parse(text),
        labels: { ...labels, [ACCELERATED]: undefined },
        annotations: { ...annotations, [DECISIONS]: undefined },
      };
    };
    expect(imageOf(seen)).not.toBe(imageOf(plain));
    expect(strip(seen)).toEqual(strip(plain));
  });

  test('a registry that hangs costs a Pod the budget and no more', async () => {
    const started = performance.now();
    const admitted = await create(`${silent.host}/team/app:v1`);
    const took = performance.now() - started;
    expect(decisionsOf(admitted)).toMatchObject([{ outcome: 'budget-exceeded', image: `${silent.host}/team/app:v1` }]);
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(2_000);
    // An image of a registry that answers is not held up by the other container's.
    const both = await create(app.source, {
      spec: {
        containers: [
          { name: 'app', image: app.source },
          { name: 'slow', image: `${silent.host}/x:v1` },
        ],
      },
    });
    expect(decisionsOf(both).map((d) => d.outcome)).toEqual(['accelerated', 'budget-exceeded']);
  });

  test('a registry that is down leaves the image alone at once', async () => {
    const admitted = await create('127.0.0.1:1/team/app:v1');
    expect(decisionsOf(admitted)).toMatchObject([{ outcome: 'registry-error', image: '127.0.0.1:1/team/app:v1' }]);
  });

  test('a registry that comes back is used again', async () => {
    const image = await pushPair(cluster, 'team/later');
    await cluster.registry.stop();
    expect(decisionsOf(await create(image.source))[0]?.outcome).toMatch(/registry-error|circuit-open|budget-exceeded/);
    await cluster.registry.start();
    await untilOutcome(cluster, image.source, 'accelerated');
  }, 150_000);

  test('a policy with a bad selector is ignored, visibly, and the others go on', async () => {
    const [webhook] = harbinger.webhooks;
    if (webhook === undefined) throw new Error('no webhook');
    const bad = policy('bad', {
      priority: 100,
      match: { namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'In' }] } },
    });
    await cluster.client.apply(bad);
    await until('the policy to be counted as invalid', async () => (await metric(webhook, 'harbinger_policies_invalid')) === 1);
    expect(webhook.logs()).toContain(
      'AccelerationPolicy bad is ignored: spec.match.namespaceSelector.matchExpressions: operator In of key \\"team\\" needs values',
    );
    expect(decisionsOf(await create(app.source))).toMatchObject([{ outcome: 'accelerated', policy: 'all' }]);
    await cluster.client.delete(POLICY, 'bad');
    await until('the policy to be forgotten', async () => (await metric(webhook, 'harbinger_policies_invalid')) === 0);
  });

  test('a policy in mode Audit changes nothing and says what it would do', async () => {
    await cluster.client.apply(policy('audit', { priority: 10, mode: 'Audit', match: { images: [`${host}/team/app`] } }));
    await untilOutcome(cluster, app.source, 'skipped-audit');
    const [decision] = decisionsOf(await create(app.source));
    expect(decision).toMatchObject({ image: app.source, message: expect.stringContaining(app.variantDigest) });
    await cluster.client.delete(POLICY, 'audit');
    await untilOutcome(cluster, app.source, 'accelerated');
  });

  test.each(['Observe', 'Off'])(
    'mode %s changes nothing',
    async (mode) => {
      const config = { registries: [{ host, plainHTTP: true, allowLocalAddresses: true }], budgets: BUDGETS, mode };
      harbinger.writeConfig(config);
      await until(`mode ${mode} to be in force`, async () => imageOf(await create(app.source)) === app.source);
      const admitted = await create(app.source);
      expect([admitted.metadata.labels, admitted.metadata.annotations]).toEqual([undefined, undefined]);
      expect(await verdictOf(cluster, admitted.metadata.name)).toBe('called');
      harbinger.writeConfig({ ...config, mode: 'On' });
      await untilOutcome(cluster, app.source, 'accelerated');
    },
    120_000,
  );

  test('the webhook used no right that it does not have', () => {
    const account = { user: 'harbinger-system:harbinger-webhook' };
    expect(cluster.audit.query({ ...account, code: 403 })).toEqual([]);
    expect(cluster.audit.query({ ...account, verb: 'list' }).length).toBeGreaterThan(0);
    expect(cluster.audit.query({ ...account, verb: 'list' }).filter((e) => !e.uri.includes('limit='))).toEqual([]);
  });
});
