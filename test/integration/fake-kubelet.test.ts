import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { payloadImage, push } from '../../tools/oci-image/index.js';
import { Cluster } from '../cluster/cluster.js';
import type { Draft, Raw } from '../cluster/client.js';
import { notYet, until } from '../cluster/until.js';
import { knobNames } from '../doubles/fake-kubelet/index.js';

const MB = 1_000_000;
const LINK_MBIT = 80;
const LINK_BYTES_PER_SECOND = (LINK_MBIT * 1e6) / 8;

describe('the fake kubelet', () => {
  let cluster: Cluster;
  const push_ = async (seed: string, megabytes: number, tag = 'v1'): Promise<string> =>
    push(await payloadImage({ seed, bytes: megabytes * MB, bare: true }), {
      host: cluster.registry.host,
      repository: seed,
      tags: [tag],
    });

  beforeAll(async () => {
    const fake = {
      count: 3,
      linkMbit: LINK_MBIT,
      imageReportMs: 500,
      timing: { sync: 1_000, backOff: 1_000 },
      allocatable: { 'nvidia.com/gpu': '8' },
    };
    cluster = await Cluster.start({ name: 'fake-kubelet', nodes: { fake }, say: () => undefined });
  }, 900_000);
  afterAll(async () => {
    await cluster?.stop();
  }, 60_000);

  const pod = (name: string, node: string, container: Record<string, unknown>, spec: Record<string, unknown> = {}): Draft => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default' },
    spec: { nodeName: node, terminationGracePeriodSeconds: 1, containers: [{ name: 'main', ...container }], ...spec },
  });
  const run = (...args: Parameters<typeof pod>): Promise<Raw> => cluster.client.create(pod(...args));
  const main = (object: Raw): Raw['status'] => object['status']?.containerStatuses?.[0];
  const untilRunning = (name: string): Promise<Raw> =>
    cluster.client.watchUntil('v1/Pod', `default/${name}`, (p) => main(p)?.started === true, 60_000);
  const untilWaiting = (name: string, reason: string): Promise<Raw> =>
    cluster.client.watchUntil('v1/Pod', `default/${name}`, (p) => main(p)?.state?.waiting?.reason === reason, 60_000);
  const annotate = async (node: string, knob: keyof typeof knobNames, value: string | null): Promise<void> =>
    void (await cluster.client.patch('v1/Node', node, { metadata: { annotations: { [knobNames[knob]]: value } } }));

  test('starts a Pod once its image has come through the link, and lists the image on the Node by digest first', async () => {
    const image = await push_('plain', 10);
    const begun = performance.now();
    await run('plain', 'fake-1', { image: image.replace(/@.*/, ':v1') });
    const started = await untilRunning('plain');
    // 10 MB at 80 Mbit/s are one second.
    expect(performance.now() - begun).toBeGreaterThan((10 * MB * 1000) / LINK_BYTES_PER_SECOND);
    expect(main(started)).toMatchObject({ ready: true, imageID: image, restartCount: 0 });
    expect(started['status']).toMatchObject({ phase: 'Running', podIP: expect.any(String), hostIP: expect.any(String) });
    const listed = await until('the image to be listed', async () => {
      const images: { names: string[] }[] = (await cluster.client.get('v1/Node', 'fake-1'))['status'].images ?? [];
      return images.find(({ names }) => names.includes(image)) ?? notYet(images);
    });
    expect(listed.names).toEqual([image, image.replace(/@.*/, ':v1')]);
  }, 120_000);

  test('shares the link between nodes and fetches an image once a node', async () => {
    const image = await push_('shared', 5);
    const before = await cluster.fakeNodes.bytes();
    const begun = performance.now();
    await Promise.all(['fake-1', 'fake-2', 'fake-3'].map((node) => run(`shared-${node}`, node, { image })));
    await run('shared-again', 'fake-1', { image });
    for (const name of ['shared-fake-1', 'shared-fake-2', 'shared-fake-3', 'shared-again']) await untilRunning(name);
    const carried = (await cluster.fakeNodes.bytes()).total - before.total;
    expect(carried).toBeGreaterThan(15 * MB);
    expect(carried).toBeLessThan(15.1 * MB);
    expect(performance.now() - begun).toBeGreaterThan((15 * MB * 1000) / LINK_BYTES_PER_SECOND);
  }, 120_000);

  test('pulls an image volume, and the pull outlives the Pod that asked for it', async () => {
    const [puller, image] = [await push_('tiny', 0.001), await push_('outlives', 15)];
    const volume = { volumes: [{ name: 'image', image: { reference: image, pullPolicy: 'IfNotPresent' } }] };
    const container = {
      image: puller,
      startupProbe: { exec: { command: ['x'] } },
      volumeMounts: [{ name: 'image', mountPath: '/image' }],
    };
    // The pull alone would be over before the Pod is gone, on a busy machine.
    await annotate('fake-2', 'hang', 'true');
    await run('asks', 'fake-2', container, volume);
    await until(
      'the pull to run',
      async () => ((await cluster.fakeNodes.bytes()).byImage[image] ?? 0) > 0 || notYet('no byte yet'),
    );
    await cluster.client.delete('v1/Pod', 'default/asks');
    await cluster.client.untilGone('v1/Pod', 'default/asks');
    expect(await cluster.fakeNodes.images('fake-2')).not.toContain(image);
    await annotate('fake-2', 'hang', null);
    await until(
      'the pull to end',
      async () => (await cluster.fakeNodes.images('fake-2')).includes(image) || notYet(await cluster.fakeNodes.bytes()),
    );
    await run('finds', 'fake-2', container, volume);
    expect((await untilRunning('finds'))['status'].phase).toBe('Running');
  }, 120_000);

  const absent = '0'.repeat(64);
  test.each([
    ['an absent tag', (host: string) => `${host}/nothing:v1`, /^rpc error: code = NotFound desc = .*nothing:v1: not found$/],
    ['an absent digest', (host: string) => `${host}/plain@sha256:${absent}`, /: not found$/],
    ['a registry that is down', () => '127.0.0.1:1/x:v1', /dial tcp 127.0.0.1:1: connect: connection refused$/],
  ])(
    'waits with the words of a real node for %s',
    async (what, image, words) => {
      const name = what.replaceAll(' ', '-');
      await run(name, 'fake-3', { image: image(cluster.registry.host) });
      expect(main(await untilWaiting(name, 'ErrImagePull')).state.waiting.message).toMatch(words);
      expect(main(await untilWaiting(name, 'ImagePullBackOff')).state.waiting.message).toMatch(
        /^Back-off pulling image ".*": ErrImagePull: /,
      );
      expect((await cluster.client.get('v1/Pod', `default/${name}`))['status'].phase).toBe('Pending');
    },
    120_000,
  );

  test('tries a patched image of a waiting Pod at once', async () => {
    const image = await push_('late', 0.1);
    await run('late', 'fake-3', { image: `${cluster.registry.host}/nothing:v2` });
    await untilWaiting('late', 'ImagePullBackOff');
    await cluster.client.patch(
      'v1/Pod',
      'default/late',
      { spec: { containers: [{ name: 'main', image }] } },
      { type: 'strategic' },
    );
    expect(main(await untilRunning('late')).restartCount).toBe(0);
  }, 120_000);

  test('completes a Job whose containers end by themselves', async () => {
    const image = await push_('job', 0.1);
    const template = {
      spec: {
        restartPolicy: 'Never',
        initContainers: [{ name: 'first', image, command: ['true'] }],
        containers: [{ name: 'main', image, command: ['sh', '-c', 'sleep 1'], resources: { limits: { 'nvidia.com/gpu': 1 } } }],
      },
    };
    await cluster.client.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'job', namespace: 'default' },
      spec: { parallelism: 2, completions: 2, template },
    });
    const done = await cluster.client.watchUntil('batch/v1/Job', 'default/job', (job) => job['status']?.succeeded === 2);
    expect(done['status'].failed).toBeUndefined();
  }, 120_000);

  test('restarts a container that fails', async () => {
    const image = await push_('fails', 0.1);
    await run('fails', 'fake-1', { image, command: ['false'] }, { restartPolicy: 'OnFailure' });
    const looped = await cluster.client.watchUntil(
      'v1/Pod',
      'default/fails',
      (p) => main(p)?.state?.waiting?.reason === 'CrashLoopBackOff',
    );
    expect(main(looped).restartCount).toBeGreaterThan(1);
  }, 120_000);

  describe('with a fault', () => {
    test('lies: a Pod is Running and no image is there', async () => {
      await annotate('fake-3', 'lie', 'true');
      await run('lies', 'fake-3', { image: `${cluster.registry.host}/nothing:v3` });
      await untilRunning('lies');
      expect(await cluster.fakeNodes.images('fake-3')).not.toContain(`${cluster.registry.host}/nothing:v3`);
      await annotate('fake-3', 'lie', null);
    }, 120_000);

    test('has a full disk', async () => {
      const image = await push_('full', 0.1);
      await annotate('fake-2', 'diskFull', 'true');
      await run('full', 'fake-2', { image });
      expect(main(await untilWaiting('full', 'ErrImagePull')).state.waiting.message).toMatch(/no space left on device$/);
      await annotate('fake-2', 'diskFull', null);
      await untilRunning('full');
    }, 120_000);

    test('is not ready, and ready again', async () => {
      const ready = async (status: string): Promise<void> => {
        const is = (node: Raw): boolean =>
          node['status'].conditions.some((c: { type: string; status: string }) => c.type === 'Ready' && c.status === status);
        await cluster.client.watchUntil('v1/Node', 'fake-2', is);
      };
      await annotate('fake-2', 'notReady', 'true');
      await ready('False');
      await annotate('fake-2', 'notReady', null);
      await ready('True');
    }, 120_000);

    test('comes back as a new machine without images after its Node was deleted, and runs what is bound to its name', async () => {
      const before = await cluster.fakeNodes.images('fake-3');
      expect(before.length).toBeGreaterThan(0);
      // Pods of the tests before are bound to its name as well, until somebody collects them.
      for (const { metadata } of await cluster.client.list('v1/Pod', { fieldSelector: 'spec.nodeName=fake-3' })) {
        await cluster.client.delete('v1/Pod', `default/${metadata.name}`, { gracePeriodSeconds: 0 });
        await cluster.client.untilGone('v1/Pod', `default/${metadata.name}`);
      }
      await cluster.client.delete('v1/Node', 'fake-3');
      await cluster.client.untilGone('v1/Node', 'fake-3');
      await run('bound-before', 'fake-3', { image: await push_('bound-before', 0.001) });
      await cluster.client.create({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'fake-3' }, spec: {} });
      await cluster.untilNodesReady(3);
      await untilRunning('bound-before');
      const after = await cluster.fakeNodes.images('fake-3');
      expect(after.length).toBeGreaterThan(0);
      expect(after.filter((name) => !/\/bound-before[@:]/.test(name))).toEqual([]);
    }, 120_000);
  });
});
