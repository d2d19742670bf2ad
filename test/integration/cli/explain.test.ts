import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { parse, stringify } from 'yaml';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Images } from '../webhook/ground.js';
import { ACCELERATED, DECISIONS, NS, namespace, pod, policy, pushPair, pushPlain, untilOutcome } from '../webhook/ground.js';
import { executable, file, harbinger, json } from './ground.js';

interface Op {
  op: string;
  path: string;
  value?: unknown;
}

interface Explained {
  notes: string[];
  pods: { object: string; unseen?: string; containers: { decision: { outcome: string; image: string } }[]; patch: Op[] }[];
}

type Parts = Parameters<typeof pod>[1];

/** What the API server makes of a Pod with the webhook, without storing it. */
async function admit(cluster: Cluster, draft: Draft): Promise<Raw> {
  const path = `/api/v1/namespaces/${draft.metadata.namespace ?? NS}/pods?dryRun=All`;
  return (await cluster.client.request('POST', path, draft)) as Raw;
}

/** Images, decisions and the label: all that the webhook may touch. */
function touched(object: Raw): unknown {
  const { initContainers = [], containers, volumes = [] } = object['spec'];
  const images = [...initContainers, ...containers].map((c: { name: string; image: string }) => [c.name, c.image]);
  const mounted = volumes.flatMap((v: { name: string; image?: { reference: string } }) =>
    v.image === undefined ? [] : [[v.name, v.image.reference]],
  );
  const { annotations = {}, labels = {} } = object.metadata;
  return { images, mounted, decisions: annotations[DECISIONS], accelerated: labels[ACCELERATED] };
}

/** The explained patch carried out; the operations are those that a webhook may send, so little is needed. */
function applied(draft: Draft, patch: readonly Op[]): Raw {
  const copy = structuredClone(draft) as unknown as Raw;
  for (const { op, path, value } of patch) {
    const keys = path
      .slice(1)
      .split('/')
      .map((k) => k.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = keys.pop() ?? '';
    const parent = keys.reduce<Record<string, unknown>>((at, key) => at[key] as Record<string, unknown>, copy as never);
    if (op === 'remove') delete parent[last];
    else parent[last] = value;
  }
  return copy;
}

/** Each test starts the executable several times, on machines that do other things as well. */
jest.setTimeout(120_000);

describe('explain by a cluster', () => {
  let cluster: Cluster;
  let app: Images;
  let host: string;
  let directory: string;
  const explain = (draft: Draft, ...more: string[]): Promise<Explained> =>
    json<Explained>(['explain', '--pod', file(directory, 'pod.json', draft), '--kubeconfig', cluster.kubeconfig, ...more]);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'cli-'));
    cluster = await Cluster.start({ name: 'it-cli', nodes: { fake: 2 }, say: () => undefined });
    host = cluster.registry.host;
    app = await pushPair(cluster, 'team/app');
    const config = {
      registries: [{ host, plainHTTP: true, allowLocalAddresses: true }],
      budgets: { admissionMs: 2_500, eventLoopLagMs: 5_000 },
      rewrite: { imageVolumes: true },
    };
    await cluster.client.apply([
      namespace(),
      namespace('opted-out', { 'harbinger.dev/accelerate': 'false' }),
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'unlabelled' } },
    ]);
    await cluster.installHarbinger({ config });
    await cluster.client.apply({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'harbinger-config', namespace: 'harbinger-system' },
      data: { 'config.yaml': stringify(config) },
    });
    await cluster.client.apply(policy('all', { match: { images: [`${host}/**`], excludeImages: [`${host}/excluded/**`] } }));
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 300_000);
  afterAll(async () => {
    await cluster?.stop();
  });

  const owned = (apiVersion: string, kind: string, uid = 'a1') => ({
    ownerReferences: [{ apiVersion, kind, name: 'owner', uid, controller: true }],
  });

  test.each<[string, string, () => Promise<[string, Parts?]>]>([
    ['a Pod whose image has a variant', 'accelerated', () => Promise.resolve([app.source])],
    [
      'containers of all kinds',
      'accelerated',
      () =>
        Promise.resolve([
          app.source,
          {
            spec: {
              initContainers: [{ name: 'setup', image: app.source }],
              volumes: [{ name: 'data', image: { reference: app.source } }],
            },
          },
        ]),
    ],
    [
      'a variant of another source',
      'variant-stale',
      async () => {
        const { source } = await pushPair(cluster, 'team/moved');
        await pushPlain(cluster, 'team/moved', 'v1', 'a new release');
        return [source];
      },
    ],
    ['a variant without a record', 'freshness-unknown', async () => [(await pushPair(cluster, 'team/unrecorded', false)).source]],
    [
      'an image without a variant',
      'variant-missing',
      async () => {
        await pushPlain(cluster, 'team/plain', 'v1');
        return [`${host}/team/plain:v1`];
      },
    ],
    ['an image that is not there', 'registry-error', () => Promise.resolve([`${host}/team/none:v1`])],
    ['an image of no policy', 'no-policy', () => Promise.resolve([`${host}/excluded/app:v1`])],
    ['an image that cannot be parsed', 'unparsable', () => Promise.resolve([`${host}/TEAM/app:v1`])],
    [
      'a platform that the image lacks',
      'platform-missing',
      () => Promise.resolve([app.source, { spec: { nodeSelector: { 'kubernetes.io/arch': 'riscv64' } } }]),
    ],
    [
      'an opt-out of the Pod',
      'skipped-opt-out',
      () => Promise.resolve([app.source, { metadata: { annotations: { 'harbinger.dev/accelerate': 'false' } } }]),
    ],
    ['an opt-out of the namespace', 'skipped-opt-out', () => Promise.resolve([app.source, { namespace: 'opted-out' }])],
    [
      'a container that is named',
      'skipped-container',
      () => Promise.resolve([app.source, { metadata: { annotations: { 'harbinger.dev/skip-containers': 'app' } } }]),
    ],
    [
      'an image that is never pulled',
      'skipped-pull-never',
      () => Promise.resolve([app.source, { container: { imagePullPolicy: 'Never' } }]),
    ],
    [
      'a Pod of an operator that nobody knows',
      'skipped-owner',
      () => Promise.resolve([app.source, { metadata: owned('databases.example.com/v1', 'Postgres') }]),
    ],
    ['a Pod of a Job', 'accelerated', () => Promise.resolve([app.source, { metadata: owned('batch/v1', 'Job') }])],
  ])('%s becomes what the webhook makes of it: %s', async (_, outcome, make) => {
    const [image, parts] = await make();
    const draft = pod(image, parts);
    const { notes, pods } = await explain(draft);
    expect(pods[0]?.containers.at(-1)?.decision.outcome).toBe(outcome);
    const admitted = await admit(cluster, draft);
    expect(touched(applied(draft, pods[0]?.patch ?? []))).toEqual(touched(admitted));
    expect(notes).toEqual([]);
  });

  test('a member of a prewarmed gang gets the recorded digest, found by uid or by name', async () => {
    const recorded = await pushPlain(cluster, 'team/gang', 'v1');
    const image = `${host}/team/gang:v1`;
    const template = { spec: { restartPolicy: 'Never', schedulerName: 'nobody', containers: [{ name: 'main', image }] } };
    const draft: Draft = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'gang', namespace: NS },
      spec: { suspend: true, template },
    };
    const job = await cluster.client.create(draft);
    const uid = job.metadata.uid ?? '';
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'gang', namespace: NS },
      spec: {
        suspend: true,
        gangRef: { apiGroup: 'batch', kind: 'Job', name: 'gang', uid },
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
    const decisions = ({ pods }: Explained) => pods.flatMap((p) => p.containers.map((c) => c.decision));
    const wanted = [expect.objectContaining({ outcome: 'pinned', image: resolved })];
    expect(decisions(await explain(job))).toEqual(wanted);
    expect(decisions(await explain(draft))).toEqual(wanted);
    const other = { ...draft, metadata: { ...draft.metadata, name: 'other' } } as Draft;
    expect(decisions(await explain(other))).toEqual([expect.objectContaining({ outcome: 'variant-missing' })]);
  });

  test('a Pod that the webhook does not see says so, and has no patch', async () => {
    const draft = pod(app.source, { namespace: 'unlabelled' });
    const { pods } = await explain(draft);
    expect(pods[0]).toMatchObject({ unseen: expect.stringContaining('unlabelled is not labelled'), patch: [] });
    expect(pods[0]?.containers[0]?.decision.outcome).toBe('accelerated');
    expect(touched(await admit(cluster, draft))).toEqual(touched(draft as unknown as Raw));
  });

  test('a Pod that names no namespace is taken for one of the namespace of the context, unless -n says otherwise', async () => {
    const contexts = parse(readFileSync(cluster.kubeconfig, 'utf8')) as { contexts: { context: object }[] };
    const [only] = contexts.contexts;
    Object.assign(only?.context ?? {}, { namespace: 'unlabelled' });
    const kubeconfig = file(directory, 'context.json', contexts);
    const { namespace: _, ...metadata } = pod(app.source).metadata;
    const path = file(directory, 'bare.json', { ...pod(app.source), metadata });
    const seen = async (...more: string[]): Promise<string | undefined> =>
      (await json<Explained>(['explain', '--pod', path, '--kubeconfig', kubeconfig, ...more])).pods[0]?.unseen;
    expect(await seen()).toContain('namespace unlabelled is not labelled');
    expect(await seen('-n', NS)).toBeUndefined();
  });

  test('who may read nothing is told what was not read, and what is assumed', async () => {
    const kubeconfig = cluster.kubeconfigForUser('stranger');
    const config = file(
      directory,
      'config.yaml',
      stringify({ registries: [{ host, plainHTTP: true, allowLocalAddresses: true }] }),
    );
    const path = file(directory, 'policy.json', policy('mine'));
    const args = ['explain', app.source, '-n', NS, '--kubeconfig', kubeconfig];
    const { code, out } = await harbinger(args);
    expect(code).toBe(0);
    expect(out.split('\n').filter((line) => line.startsWith('! not read: '))).toEqual([
      expect.stringMatching(
        /ConfigMap harbinger-system\/harbinger-config \(you may not read it\); what follows assumes defaults/,
      ),
      expect.stringMatching(/ConfigMap harbinger-system\/harbinger-node-classes \(you may not/),
      expect.stringMatching(/Namespace team \(you may not read it\); .*labelled harbinger.dev\/accelerate=enabled/),
      expect.stringMatching(/accelerationpolicies \(you may not read it\); .*that there are none/),
    ]);
    // With files instead, the rest can still be explained.
    const helped = await harbinger([...args, '--config', config, '-p', path, '--platform', 'linux/amd64']);
    expect(helped.out).toContain(`=> accelerated: the Pod gets ${host}/team/app@${app.variantDigest}`);
  });

  test('a server that cannot be reached is an error, not an assumption', async () => {
    const kubeconfig = file(directory, 'away.json', {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'u', user: {} }],
    });
    expect(await harbinger(['explain', 'nginx', '--kubeconfig', kubeconfig])).toMatchObject({ code: 1, out: '' });
  });

  describe('simulate', () => {
    test('walks a folder by the cluster, goes on behind broken files, and counts', async () => {
      const folder = join(directory, 'manifests');
      mkdirSync(join(folder, 'deep'), { recursive: true });
      const deployment = {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'web', namespace: NS },
        spec: { template: { spec: { containers: [{ name: 'web', image: app.source }] } } },
      };
      file(folder, 'a.yaml', `${stringify(deployment)}---\nkind: Service\n---\na: [\n`);
      file(join(folder, 'deep'), 'b.json', {
        kind: 'List',
        items: [pod(`${host}/team/none:v1`), pod('nginx', { namespace: 'unlabelled' })],
      });
      const args = ['simulate', '-f', folder, '--kubeconfig', cluster.kubeconfig];
      const { summary } = await json<{ summary: Record<string, unknown> }>(args);
      expect(summary).toMatchObject({ objects: 3, pods: 3, containers: 3, changed: 1, left: 1, problems: 2 });
      const text = await harbinger([...args, '--fail-on', 'problems']);
      expect(text.code).toBe(3);
      expect(text.out).toContain(`${join(folder, 'a.yaml')}:`);
      expect(text.out).toContain(`-> ${host}/team/app@${app.variantDigest}`);
      expect(text.out).toContain('not looked at: namespace unlabelled is not labelled');
    });

    test('of a folder without manifests is an error, and of a reader that goes away an end', async () => {
      const folder = join(directory, 'none');
      mkdirSync(folder);
      const empty = await harbinger(['simulate', '-f', folder, '--kubeconfig', cluster.kubeconfig]);
      expect(empty).toMatchObject({ code: 1, out: '', err: expect.stringContaining('holds no manifest') });
      const many = file(directory, 'many.yaml', `${stringify(pod('nginx'))}---\n`.repeat(3_000));
      const child = spawn(
        process.execPath,
        [...executable(), 'simulate', '-f', many, '-p', file(directory, 'p.json', policy('mine'))],
        {
          env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent' },
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      child.stdout.once('data', () => child.stdout.destroy());
      const [err, [code]] = await Promise.all([textOf(child.stderr), once(child, 'exit')]);
      expect([code, err]).toEqual([141, '']);
    });

    test.each([
      ['nothing to report', 'excluded/app:v1', ['changed', 'left', 'problems'], 0],
      ['a change that is asked for', 'team/app:v1', ['changed'], 3],
      ['a change that is not asked for', 'team/app:v1', ['left', 'problems'], 0],
      ['an image that would be left', 'team/none:v1', ['left'], 3],
    ])('%s: %s with --fail-on %j ends with %i', async (_, image, failOn, code) => {
      const path = file(directory, 'one.json', pod(`${host}/${image}`));
      const flags = failOn.flatMap((what) => ['--fail-on', what]);
      expect(await harbinger(['simulate', '-f', path, '--kubeconfig', cluster.kubeconfig, ...flags])).toMatchObject({ code });
    });
  });
});
