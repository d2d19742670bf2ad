import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../cluster/cluster.js';
import type { Raw } from '../cluster/client.js';
import { ensurePackages } from '../cluster/packages/index.js';
import { estargzVariant, incompressible, payloadImage, pullerImage, push } from '../../tools/oci-image/index.js';
import { notYet, until } from '../cluster/until.js';

const MIB = 1 << 20;

/** A puller Pod as Harbinger's engine makes it, bound to a node. */
const pullerPod = (name: string, node: string, puller: string, volume: string): Parameters<Cluster['client']['create']>[0] => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default' },
  spec: {
    nodeName: node,
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'puller',
        image: puller,
        command: ['/puller', 'hold', '/image'],
        startupProbe: { exec: { command: ['/puller', 'check', '/image'] }, periodSeconds: 1, failureThreshold: 30 },
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, readOnlyRootFilesystem: true },
        volumeMounts: [{ name: 'image', mountPath: '/image', readOnly: true }],
      },
    ],
    volumes: [{ name: 'image', image: { reference: volume, pullPolicy: 'IfNotPresent' } }],
  },
});

const container = (pod: Raw): Raw['status'] => pod['status']?.containerStatuses?.[0];

describe('a real node', () => {
  let cluster: Cluster;
  let puller: string;
  let payload: string;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    cluster = await Cluster.start({ name: 'nodes-suite', nodes: { real: 1 }, say: () => undefined });
    puller = await push(await pullerImage(), { host: cluster.registry.host, repository: 'puller' });
    payload = await push(await payloadImage({ seed: 'nodes-suite', bytes: 8 * MIB, split: 2 }), {
      host: cluster.registry.host,
      repository: 'payload',
      tags: ['v1'],
    });
  }, 900_000);

  afterAll(async () => {
    await cluster?.stop();
  }, 60_000);

  const node = (): string => cluster.realNodes[0]?.name ?? '';

  test('pulls an image volume by digest and runs the puller that holds it', async () => {
    const before = await cluster.registry.bytesSent();
    await cluster.client.create(pullerPod('by-digest', node(), puller, payload));
    const pod = await cluster.client.watchUntil('v1/Pod', 'default/by-digest', (p) => container(p)?.started === true, 60_000);
    expect(pod['status'].phase).toBe('Running');
    expect(container(pod).imageID).toContain(puller.split('@')[1]);
    expect(await cluster.realNodes[0]?.images()).toContain(payload);
    expect((await cluster.registry.bytesSent()) - before).toBeGreaterThan(8 * MIB);
  }, 150_000);

  test('leaves a Pod waiting whose image volume names a digest that nobody has', async () => {
    const absent = payload.replace(/@sha256:.*/, `@sha256:${'0'.repeat(64)}`);
    await cluster.client.create(pullerPod('wrong-digest', node(), puller, absent));
    const reasons = ['ErrImagePull', 'ImagePullBackOff'];
    const pod = await cluster.client.watchUntil(
      'v1/Pod',
      'default/wrong-digest',
      (p) => reasons.includes(container(p)?.state?.waiting?.reason),
      60_000,
    );
    expect(pod['status'].phase).toBe('Pending');
    expect(container(pod).started).not.toBe(true);
    expect(container(pod).state.waiting.message).toMatch(/not found|unknown/i);
  }, 150_000);

  test('names the image by digest in the status of the Node', async () => {
    const names = await until(
      'the image in Node.status.images',
      async () => {
        const status = (await cluster.client.get('v1/Node', node()))['status'];
        const all: string[] = status.images?.flatMap((image: { names?: string[] }) => image.names ?? []) ?? [];
        return all.includes(payload) ? all : notYet(all);
      },
      { timeoutMs: 60_000 },
    );
    expect(names.some((name) => name.startsWith('harbinger.test/pause'))).toBe(true);
  }, 120_000);

  test('runs an eStargz image as an ordinary one, with every byte in its place', async () => {
    const options = { seed: 'lazy', bytes: 6 * MIB, files: 1 };
    const image = await push(await estargzVariant(await payloadImage(options), options), {
      host: cluster.registry.host,
      repository: 'lazy',
    });
    const hash = createHash('sha256');
    for (const chunk of incompressible('lazy/0/0', 6 * MIB).chunks()) hash.update(chunk);
    // The shell fails when the file is not the one that was made; the twin below proves that it would.
    const check = (digest: string): string[] => ['sh', '-c', `test "$(sha256sum /payload/0/0)" = "${digest}  /payload/0/0"`];
    const digest = hash.digest('hex');
    for (const [name, command] of Object.entries({ right: check(digest), wrong: check(digest.replace(/./g, '0')) })) {
      const spec = { nodeName: node(), restartPolicy: 'Never', containers: [{ name: 'main', image, command }] };
      await cluster.client.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' }, spec });
    }
    const phase = async (name: string): Promise<string> =>
      (
        await cluster.client.watchUntil(
          'v1/Pod',
          `default/${name}`,
          (p) => ['Succeeded', 'Failed'].includes(p['status']?.phase),
          60_000,
        )
      )['status'].phase;
    expect({ right: await phase('right'), wrong: await phase('wrong') }).toEqual({ right: 'Succeeded', wrong: 'Failed' });
  }, 240_000);

  test('keeps its Pods while its kubelet is stopped, and has them again', async () => {
    const [real] = cluster.realNodes;
    const before = await cluster.client.watchUntil('v1/Pod', 'default/by-digest', (p) => container(p)?.started === true);
    await real?.stopKubelet();
    await real?.startKubelet();
    await cluster.client.create(pullerPod('after', node(), puller, payload));
    await cluster.client.watchUntil('v1/Pod', 'default/after', (p) => container(p)?.started === true, 60_000);
    const after = await cluster.client.get('v1/Pod', 'default/by-digest');
    expect(container(after).containerID).toBe(container(before).containerID);
  }, 150_000);

  test('pulls again after a wipe', async () => {
    for (const name of ['by-digest', 'after']) await cluster.client.delete('v1/Pod', `default/${name}`);
    for (const name of ['by-digest', 'after']) await cluster.client.untilGone('v1/Pod', `default/${name}`, 60_000);
    await cluster.realNodes[0]?.wipe();
    expect(await cluster.realNodes[0]?.images()).not.toContain(payload);
    const before = await cluster.registry.bytesSent();
    await cluster.client.create(pullerPod('again', node(), puller, payload));
    await cluster.client.watchUntil('v1/Pod', 'default/again', (p) => container(p)?.started === true, 60_000);
    expect((await cluster.registry.bytesSent()) - before).toBeGreaterThan(8 * MIB);
  }, 300_000);
});
