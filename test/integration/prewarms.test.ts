import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import { run } from '../cluster/exec.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { History } from '../cluster/history.js';
import { notYet, until } from '../cluster/until.js';
import { knobNames } from '../doubles/fake-kubelet/index.js';
import { RegistryDouble } from '../unit/registry/support.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersGone,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  runningPods,
  SYSTEM,
  workloadOf,
} from './controller/ground.js';
import { paperNodes } from './nodes-on-paper.js';

const ALL = ['fake-1', 'fake-2', 'fake-3', 'fake-4'];
const BUDGETS = { tagRecheckSeconds: 2 };

interface Spec {
  nodes?: Record<string, unknown>;
  target?: Record<string, unknown>;
  [field: string]: unknown;
}

/** ImagePrewarms from their first plan to their end, made by hand and for gangs, on the real API server, Kueue and fake nodes. */
describe('an ImagePrewarm', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let registries: { host: string; plainHTTP: boolean; allowLocalAddresses: boolean }[];
  /** Shows the registry of the cluster to kubelets and denies the controller, as where only nodes have the helper of a cloud. */
  let cloud: RegistryDouble;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-prewarms', kueue: true, nodes: { fake: ALL.length }, say: () => undefined });
    cloud = await RegistryDouble.start((request, response) => {
      if (request.headers['user-agent'] === 'harbinger') return void response.writeHead(401).end();
      void fetch(`${cluster.registry.url}${request.url ?? ''}`, { headers: { accept: request.headers.accept ?? '*/*' } }).then(
        async (r) =>
          response
            .writeHead(r.status, { 'content-type': r.headers.get('content-type') ?? '' })
            .end(Buffer.from(await r.arrayBuffer())),
      );
    });
    registries = [cluster.registry.host, cloud.host].map((host) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
    await cluster.client.apply(namespace);
    harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { registries, budgets: BUDGETS },
    });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '3' }, checks: [CHECK] });
  }, 300_000);
  afterAll(async () => {
    if (process.env['SHOW_LOGS']) console.log(harbinger?.controllers[0]?.logs());
    await cluster?.stop();
    await cloud?.stop();
  });

  afterEach(async () => {
    const nodes = await cluster.client.list('v1/Node');
    for (const node of nodes) for (const name of Object.values(knobNames)) await knob(cluster, node.metadata.name, name, null);
    for (const job of await cluster.client.list('batch/v1/Job', { namespace: NS })) await removeJob(cluster, job.metadata.name);
    for (const p of await cluster.client.list(PREWARM, { namespace: NS }))
      await cluster.client.delete(PREWARM, `${NS}/${p.metadata.name}`);
    // Last: what is left of a test would begin to pull there, and a pull that nobody sees the end of keeps its node for minutes.
    for (const node of nodes) await cluster.client.patch('v1/Node', node.metadata.name, { spec: { unschedulable: null } });
  }, 120_000);

  const byHand = (name: string, reference: string, { nodes = { selector: {} }, target = {}, ...spec }: Spec = {}): Draft => ({
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace: NS },
    spec: { targets: [{ name: 'main', images: [{ reference }], nodes, ...target }], ...spec },
  });
  const make = (name: string, reference: string, spec: Spec = {}): Promise<Raw> =>
    cluster.client.create(byHand(name, reference, spec));
  const edit = (name: string, spec: Record<string, unknown>): Promise<Raw> =>
    cluster.client.patch(PREWARM, `${NS}/${name}`, { spec });
  const seen = (name: string, check: (p: Raw) => boolean, timeoutMs = 30_000): Promise<Raw> =>
    cluster.client.watchUntil(PREWARM, `${NS}/${name}`, check, timeoutMs);
  const because = (reason: string) => (p: Raw) => conditionOf(p, 'Ready')?.reason === reason;
  const kubectl = (...args: string[]): Promise<string> =>
    run(join(cluster.runDir, 'bin/kubectl'), ['--kubeconfig', cluster.kubeconfig, '--namespace', NS, ...args]);
  const pullerNodes = async (resolved: string): Promise<string[]> =>
    (await pullersOf(cluster, resolved)).map((p) => p['spec'].nodeName as string).sort();
  const bytesOf = async (resolved: string): Promise<number> => (await cluster.fakeNodes.bytes()).byImage[resolved] ?? 0;
  /** Reasons of Events on an object, in the order in which they came, each once. */
  const told = async (kind: string, name: string): Promise<string[]> => {
    const events = await cluster.client.list('events.k8s.io/v1/Event', { namespace: NS });
    const mine = events.filter((e) => e['regarding'].kind === kind && e['regarding'].name === name);
    mine.sort((a, b) => ((a['eventTime'] as string) < (b['eventTime'] as string) ? -1 : 1));
    return [...new Set(mine.map((e) => e['reason'] as string))].filter((r) =>
      /^(Prewarm|ImagesWarm|Released|WarmthLost)/.test(r),
    );
  };

  describe('made by hand', () => {
    const affinity = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['fake-2', 'fake-3'] }] }];
    test.each<[string, Record<string, unknown>, string[]]>([
      ['of the nodes that it names', { names: ['fake-1', 'fake-3'] }, ['fake-1', 'fake-3']],
      ['of all nodes that its labels select', { selector: { matchLabels: { 'kubernetes.io/os': 'linux' } } }, ALL],
      ['of one of the nodes of an affinity', { affinity, count: 1 }, ['fake-2']],
    ])(
      'makes the image warm on the disks %s',
      async (_title, nodes, warm) => {
        const { image, resolved } = await pushImage(cluster, `hand-${warm.length}`);
        await make('hand', image, { nodes });
        const object = await seen('hand', ready);
        expect(object['status']).toMatchObject({ observedGeneration: 1, nodes: { desired: warm.length, warm: warm.length } });
        expect(await pullerNodes(resolved)).toEqual(warm);
      },
      120_000,
    );

    test('is waited for and shown by kubectl, and tells its life in Events', async () => {
      const { image } = await pushImage(cluster, 'shown');
      await make('shown', image);
      await kubectl('wait', '--for=condition=Ready', 'ipw/shown', '--timeout=60s');
      const [heads, row] = (await kubectl('get', 'ipw', 'shown', '-o', 'wide')).trim().split('\n');
      expect(heads?.split(/\s{2,}/)).toEqual([
        'NAME',
        'READY',
        'REASON',
        'NODES',
        'FAILED',
        'GANG',
        'QUEUE',
        'SIZE',
        'PLACEMENT',
        'ETA',
        'AGE',
      ]);
      expect(row).toMatch(/^shown\s+True\s+AllNodesWarm\s+4\/4\s+0\s/);
      await until('the Events', async () => {
        const reasons = await told('ImagePrewarm', 'shown');
        return reasons.join() === 'PrewarmStarted,ImagesWarm' || notYet(reasons);
      });
    }, 120_000);

    test('H-20: an image that is on the nodes already is warm at once, and no byte is pulled for it', async () => {
      const { image, resolved } = await pushImage(cluster, 'present');
      await make('first', image);
      await seen('first', ready);
      await cluster.client.delete(PREWARM, `${NS}/first`);
      await pullersGone(cluster, resolved);
      const before = await bytesOf(resolved);
      await make('second', image);
      const object = await seen('second', ready);
      expect(object['status']).toMatchObject({ nodes: { desired: 4, warm: 4, failed: 0 }, failures: [] });
      expect([before > 0, (await bytesOf(resolved)) - before]).toEqual([true, 0]);
    }, 120_000);

    test('is worked on again when it is edited after it had finished, and its status says which spec it speaks of', async () => {
      const [old, next] = [await pushImage(cluster, 'edit-old'), await pushImage(cluster, 'edit-new')];
      await make('edited', old.image, { retain: 'Never' });
      await seen('edited', because('Finished'));
      await pullersGone(cluster, old.resolved);
      await edit('edited', { targets: [{ name: 'main', images: [{ reference: next.image }], nodes: { selector: {} } }] });
      const object = await seen(
        'edited',
        (p) => p['status'].observedGeneration === 2 && p['status'].completionTime !== undefined,
      );
      expect(object['status'].targets[0].images[0]).toMatchObject({ source: next.image, resolved: next.resolved });
      expect(await bytesOf(next.resolved)).toBeGreaterThan(0);
      await pullersGone(cluster, next.resolved);
    }, 120_000);

    test('stops where it is while suspended and goes on afterwards', async () => {
      const { image, resolved } = await pushImage(cluster, 'suspended');
      await make('suspended', image, { suspend: true });
      const object = await seen('suspended', because('Suspended'));
      expect(object['status'].targets[0].images[0].resolved).toBe(resolved);
      expect(await pullersOf(cluster, resolved)).toEqual([]);
      await edit('suspended', { suspend: false });
      await seen('suspended', ready);
      // What is warm stays so, and Ready.
      await edit('suspended', { suspend: true });
      expect(ready(await seen('suspended', (p) => p['status'].observedGeneration === 3))).toBe(true);
      expect(await pullerNodes(resolved)).toEqual(ALL);
    }, 120_000);

    test('with a seed is refused in words that say what to do', async () => {
      const { image, resolved } = await pushImage(cluster, 'seeded');
      await make('seeded', image, { seed: { dragonfly: { name: 'p2p' } } });
      const object = await seen('seeded', because('Invalid'));
      expect(conditionOf(object, 'Ready')?.message).toMatch(/has no such Dragonfly cluster: .*remove spec.seed/);
      expect(conditionOf(object, 'Failed')).toMatchObject({ status: 'True', reason: 'Invalid' });
      expect(await pullersOf(cluster, resolved)).toEqual([]);
    }, 40_000);

    test('for which there is no node says why, and finds one once there is', async () => {
      const { image } = await pushImage(cluster, 'nowhere');
      for (const node of ALL) await cluster.client.patch('v1/Node', node, { spec: { unschedulable: true } });
      await make('nowhere', image);
      const object = await seen('nowhere', because('NoCandidateNodes'));
      expect(conditionOf(object, 'Ready')?.message).toMatch(/4 nodes: .*cordon/);
      expect(object['status'].nodes).toMatchObject({ desired: 0, warm: 0 });
      await cluster.client.patch('v1/Node', 'fake-1', { spec: { unschedulable: null } });
      expect((await seen('nowhere', ready))['status'].progress).toBe('1/1');
    }, 120_000);

    test('gives up at its deadline, keeps what is warm, and is deleted when its time to live is over', async () => {
      const { image, resolved } = await pushImage(cluster, 'deadline');
      await knob(cluster, 'fake-2', knobNames.hang, 'true');
      await make('deadline', image, { nodes: { names: ['fake-1', 'fake-2'] }, activeDeadlineSeconds: 20 });
      const object = await seen('deadline', because('DeadlineExceeded'), 60_000);
      expect(conditionOf(object, 'Failed')).toMatchObject({ status: 'True', reason: 'DeadlineExceeded' });
      expect(object['status'].progress).toBe('1/2');
      await knob(cluster, 'fake-2', knobNames.hang, null);
      // The pull that was under way ends well, and that is a success after all.
      await seen('deadline', ready);
      await edit('deadline', { ttlSecondsAfterFinished: 1 });
      await pullersGone(cluster, resolved);
      await cluster.client.untilGone(PREWARM, `${NS}/deadline`);
      expect(await cluster.client.list(PREWARM, { namespace: NS })).toEqual([]);
    }, 180_000);

    test('of an image that only nodes may pull is warmed by its digest; by a tag it is told what to do', async () => {
      const pushed = await pushImage(cluster, 'cloud');
      const resolved = `${cloud.host}/cloud@${pushed.digest}`;
      await make('by-digest', resolved);
      await make('by-tag', `${cloud.host}/cloud:v1`);
      const object = await seen('by-digest', ready);
      const [record] = object['status'].targets[0].images;
      expect(record).toMatchObject({ resolved, outcome: 'pinned', message: expect.stringMatching(/^size and variants unknown/) });
      expect(record).not.toHaveProperty('sizeBytes');
      const denied = await seen('by-tag', because('AuthDenied'));
      expect(conditionOf(denied, 'Ready')?.message).toContain('name the image by digest');
    }, 120_000);
  });

  test('with retain Always gives a node that joins its base image', async () => {
    const { image, resolved } = await pushImage(cluster, 'base');
    await make('base', image, { retain: 'Always' });
    await seen('base', ready);
    await cluster.client.delete('v1/Node', 'fake-4');
    expect((await seen('base', (p) => ready(p) && p['status'].progress === '3/3'))['status'].nodes.failed).toBe(0);
    // A node of this name that comes later is another machine, with an empty disk.
    await cluster.client.create({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: 'fake-4',
        labels: { 'kubernetes.io/hostname': 'fake-4', 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' },
      },
    });
    await seen('base', (p) => ready(p) && p['status'].progress === '4/4', 60_000);
    expect(await cluster.fakeNodes.images('fake-4')).toContain(resolved);
  }, 120_000);

  test('H-23: of all nodes leaves virtual, cordoned, dead and foreign ones out, and finishes; who names them is told why', async () => {
    const { image, resolved } = await pushImage(cluster, 'kinds');
    const paper = [
      { name: 'virtual', labels: { type: 'virtual-kubelet' } },
      { name: 'windows', os: 'windows' },
    ];
    try {
      await paperNodes(cluster, paper);
      await knob(cluster, 'fake-1', knobNames.notReady, 'true');
      await cluster.client.watchUntil('v1/Node', 'fake-1', (n) => !ready(n));
      await cluster.client.patch('v1/Node', 'fake-2', { spec: { unschedulable: true } });
      await make('kinds', image, { nodes: { selector: {}, count: 2 }, retain: 'Never' });
      const done = await seen('kinds', (p) => p['status']?.completionTime !== undefined);
      expect(done['status']).toMatchObject({ progress: '2/2', nodes: { desired: 2, warm: 2, failed: 0 }, failures: [] });
      await pullersGone(cluster, resolved);
      const bytes = (await cluster.fakeNodes.bytes()).byImage[resolved];
      for (const [node, has] of Object.entries(await cluster.fakeNodes.allImages()))
        expect([node, has.includes(resolved)]).toEqual([node, node === 'fake-3' || node === 'fake-4']);
      expect(bytes).toBeGreaterThan(0);

      await paperNodes(cluster, paper);
      await make('named', image, { nodes: { names: [...ALL, ...paper.map((n) => n.name)] } });
      const named = await seen('named', (p) => p['status']?.nodes?.warm === 2 && p['status'].nodes.failed === 4);
      const failures = named['status'].failures as { node: string; reason: string; message: string }[];
      expect(Object.fromEntries(failures.map((f) => [f.node, `${f.reason}: ${f.message}`]))).toEqual({
        'fake-1': expect.stringMatching(/^NodeNotReady: node fake-1 is not Ready/),
        'fake-2': expect.stringMatching(/^NodeNotEligible: .*cordon/),
        virtual: expect.stringMatching(/^NodeNotEligible: .*virtual/),
        windows: expect.stringMatching(/^NodeNotEligible: .*windows/),
      });
    } finally {
      for (const { name } of paper) await cluster.client.delete('v1/Node', name);
      await knob(cluster, 'fake-1', knobNames.notReady, null);
      await cluster.client.watchUntil('v1/Node', 'fake-1', ready);
    }
  }, 180_000);

  test('H-29: stays warm by its pull where the node reports 50 larger images and not this one', async () => {
    const { image, resolved } = await pushImage(cluster, 'smallest', { bytes: 1_000 });
    const others = await Promise.all(Array.from({ length: 50 }, (_, i) => pushImage(cluster, `large-${i}`, { bytes: 20_000 })));
    const containers = others.map((o, i) => ({ name: `c-${i}`, image: o.image, command: ['/pause', 'sleep', '3600'] }));
    const metadata = { name: 'many', namespace: NS };
    await cluster.client.create({ apiVersion: 'v1', kind: 'Pod', metadata, spec: { nodeName: 'fake-1', containers } });
    const reported = (node: Raw): string[] => (node['status'].images ?? []).flatMap((i: { names: string[] }) => i.names);
    const full = (node: Raw): boolean => node['status'].images?.length === 50 && !reported(node).includes(resolved);
    try {
      await cluster.client.watchUntil('v1/Node', 'fake-1', full, 60_000);
      await make('smallest', image, { nodes: { names: ['fake-1', 'fake-2'] } });
      await seen('smallest', ready);
      // The node beside it, which has room in its list, tells when both have reported.
      const beside = await cluster.client.watchUntil('v1/Node', 'fake-2', (n) => reported(n).includes(resolved), 60_000);
      expect(full(await cluster.client.get('v1/Node', 'fake-1'))).toBe(true);
      expect(reported(beside)).toContain(resolved);
      expect(await cluster.fakeNodes.images('fake-1')).toContain(resolved);
      const object = await seen('smallest', ready);
      expect(object['status']).toMatchObject({ progress: '2/2', failures: [] });
    } finally {
      await cluster.client.delete('v1/Pod', `${NS}/many`, { gracePeriodSeconds: 0 });
      await cluster.fakeNodes.wipe('fake-1');
    }
  }, 120_000);

  describe('of a gang', () => {
    test('H-24: has pullers on nodes whose taints its template and its flavor tolerate, and nowhere else', async () => {
      const taint = (key: string) => ({ key, value: 'true', effect: 'NoSchedule' });
      const tolerate = (key: string) => ({ key, operator: 'Exists', effect: 'NoSchedule' });
      const keys = ['nvidia.com/gpu', 'spot', 'dedicated', 'dedicated'];
      const spot = { name: 'spot', namespace: NS, quota: { cpu: '3' }, tolerations: [tolerate('spot')], checks: [CHECK] };
      const job = (name: string, image: string, queue: string, spec: Record<string, unknown> = {}): Promise<Raw> =>
        cluster.client.create(gang(name, image, { pods: 2, queue, annotations: prewarm('2m'), spec }));
      try {
        await cluster.kueueQueue(spot);
        for (const [i, key] of keys.entries())
          await cluster.client.patch('v1/Node', ALL[i] ?? '', { spec: { taints: [taint(key)] } });
        const [own, bare] = [await pushImage(cluster, 'tainted'), await pushImage(cluster, 'tainted-bare')];
        // Its quota is free: it is Ready, and has pullers, only for as long as its Pods take to start.
        const records = new History(cluster.client, PREWARM, NS, (p) => p['spec'].gangRef?.name === 'tolerant');
        const pullers = new History(cluster.client, 'v1/Pod', SYSTEM, (p) => JSON.stringify(p['spec']).includes(own.resolved));
        await job('tolerant', own.image, 'spot', { tolerations: [tolerate('nvidia.com/gpu')] });
        await records.reaches('warm nodes', (p) => ready(p) && p['status'].progress === '2/2');
        await Promise.all([records.stop(), pullers.stop()]);
        const last = new Map(pullers.versions.map((p) => [p.metadata.uid, p['spec'].nodeName as string]));
        expect([...new Set(last.values())].sort()).toEqual(['fake-1', 'fake-2']);
        const pods = await runningPods(cluster, 'tolerant', 2);
        expect(['fake-1', 'fake-2']).toEqual(expect.arrayContaining(pods.map((p) => p['spec'].nodeName as string)));
        // The twin tolerates nothing: no puller, and it is told which taints keep it out.
        await job('intolerant', bare.image, QUEUE);
        const none = await prewarmOf(cluster, 'intolerant', because('NoCandidateNodes'));
        expect(conditionOf(none, 'Ready')?.message).toContain('its taint nvidia.com/gpu:NoSchedule is not tolerated');
        expect(await pullersOf(cluster, bare.resolved)).toEqual([]);
      } finally {
        for (const node of ALL) await cluster.client.patch('v1/Node', node, { spec: { taints: null } });
      }
    }, 240_000);

    /** Two Pods, of which three fit into the queue; another gang keeps the quota for itself. */
    async function queued(name: string, image: string, pods = 2): Promise<void> {
      const blocker = await pushImage(cluster, 'blocker');
      await cluster.client.create(gang('blocker', blocker.image));
      await workloadOf(cluster, 'blocker', admitted);
      await cluster.client.create(gang(name, image, { pods, annotations: prewarm() }));
    }

    test('H-32: takes warm back when a node under pressure evicts, the gang waits, and it is warmed elsewhere before it goes', async () => {
      const { image, resolved } = await pushImage(cluster, 'collected');
      await queued('collected', image);
      await prewarmOf(cluster, 'collected', ready);
      await workloadOf(cluster, 'collected', (w) => checkOf(w)?.state === 'Ready');
      // What a kubelet under disk pressure does: the Pod goes, then images that nothing uses.
      const [victim, other] = await pullerNodes(resolved);
      for (const node of ALL.filter((n) => n !== victim && n !== other)) await knob(cluster, node, knobNames.hang, 'true');
      await cluster.client.patch('v1/Node', victim ?? '', { spec: { unschedulable: true } });
      await until('the puller to be gone', async () => !(await pullerNodes(resolved)).includes(victim ?? '') || notYet(victim));
      await cluster.fakeNodes.wipe(victim ?? '', resolved);
      const cold = await prewarmOf(cluster, 'collected', (p) => !ready(p) && p['status'].progress === '1/2');
      expect(conditionOf(cold, 'Released')).toBeUndefined();
      expect(checkOf(await workloadOf(cluster, 'collected', (w) => checkOf(w)?.state === 'Pending')).message).toMatch(/1\/2/);
      for (const node of ALL) await knob(cluster, node, knobNames.hang, null);
      await prewarmOf(cluster, 'collected', ready);
      await workloadOf(cluster, 'collected', (w) => checkOf(w)?.state === 'Ready');
      expect(await pullerNodes(resolved)).not.toContain(victim);
    }, 240_000);

    test('with retain WhileGangRuns keeps spares warm while the gang runs, and replaces one that is lost', async () => {
      const { image, resolved } = await pushImage(cluster, 'spares');
      await queued('spares', image);
      await prewarmOf(cluster, 'spares', ready);
      const { metadata } = await prewarmOf(cluster, 'spares');
      await edit(metadata.name, { retain: 'WhileGangRuns', spareNodes: 1 });
      await prewarmOf(cluster, 'spares', (p) => ready(p) && p['status'].progress === '3/3');
      await removeJob(cluster, 'blocker');
      const running = (await runningPods(cluster, 'spares', 2)).map((p) => p['spec'].nodeName as string);
      await prewarmOf(cluster, 'spares', (p) => conditionOf(p, 'Released')?.reason === 'WarmVerified');
      expect(await pullerNodes(resolved)).toHaveLength(3);
      const spare = (await pullerNodes(resolved)).find((n) => !running.includes(n)) ?? '';
      await knob(cluster, spare, knobNames.notReady, 'true');
      const [last = ''] = ALL.filter((n) => n !== spare && !running.includes(n));
      await until(
        'the next spare to be warm',
        async () => (await cluster.fakeNodes.images(last)).includes(resolved) || notYet(last),
      );
      await prewarmOf(cluster, 'spares', (p) => ready(p) && p['status'].progress === '3/3');
      // The end of the gang is the end of it all.
      await removeJob(cluster, 'spares');
      await pullersGone(cluster, resolved);
      await until('its Events', async () => {
        const reasons = await told('Job', 'spares');
        return (
          (reasons.slice(0, 2).join() === 'PrewarmStarted,ImagesWarm' && reasons.includes('ReleasedWarmVerified')) ||
          notYet(reasons)
        );
      });
    }, 300_000);

    test('is planned, not pulled, in mode Observe; warmed in On; let go of in Off; and back, all switched live', async () => {
      const { image, resolved } = await pushImage(cluster, 'modes');
      const mode = (value: string): void => harbinger.writeConfig({ registries, budgets: BUDGETS, mode: value });
      try {
        mode('Observe');
        await until('the mode', async () => {
          const text = (await harbinger.controllers[0]?.metrics()) ?? '';
          return text.includes('harbinger_mode{mode="Observe"} 1') || notYet('not switched');
        });
        await queued('modes', image);
        const planned = await prewarmOf(cluster, 'modes', because('Observing'));
        expect(conditionOf(planned, 'Ready')?.message).toMatch(/2 nodes would be warm about \d+s after the first pull/);
        expect(planned['status']).toMatchObject({ progress: '0/2', estimatedCompletionTime: expect.any(String) });
        expect(planned['status'].targets[0].images[0].resolved).toBe(resolved);
        await until('the log to name the nodes', () =>
          /"nodes":\["fake-\d","fake-\d"\].*nodes would be warmed/.test(harbinger.controllers[0]?.logs() ?? ''),
        );
        const message = 'Harbinger is in mode Observe and holds nothing';
        expect(checkOf(await workloadOf(cluster, 'modes', (w) => checkOf(w)?.state === 'Ready')).message).toBe(message);
        expect(await pullersOf(cluster, resolved)).toEqual([]);

        mode('On');
        await prewarmOf(cluster, 'modes', ready);
        await workloadOf(cluster, 'modes', (w) => checkOf(w)?.state === 'Ready');
        expect(await pullerNodes(resolved)).toHaveLength(2);

        mode('Off');
        await prewarmOf(cluster, 'modes', because('SwitchedOff'));
        await pullersGone(cluster, resolved);
        await prewarmOf(cluster, 'modes', (p) => p['status'].progress === '0/2');
        mode('Observe');
        await prewarmOf(cluster, 'modes', because('Observing'));
        mode('On');
        await prewarmOf(cluster, 'modes', ready);
        mode('Off');
        await prewarmOf(cluster, 'modes', because('SwitchedOff'));
        await removeJob(cluster, 'blocker');
        await runningPods(cluster, 'modes', 2);
        await prewarmOf(cluster, 'modes', (p) => conditionOf(p, 'Released')?.reason === 'SwitchedOff');
      } finally {
        mode('On');
      }
    }, 400_000);

    test('with pin AtQueue keeps what its tag named when it was queued, while one without follows the tag', async () => {
      const old = await pushImage(cluster, 'pinned');
      await queued('follows', old.image, 1);
      await make('pinned', old.image, { pin: 'AtQueue', nodes: { names: ['fake-1'] } });
      await make('never', old.image, { pin: 'Never', nodes: { names: ['fake-1'] } });
      for (const name of ['pinned', 'never']) await seen(name, ready);
      await prewarmOf(cluster, 'follows', ready);
      const next = await pushImage(cluster, 'pinned', { seed: 'pinned again' });
      const names = (digest: string) => (p: Raw) => p['status'].targets[0].images[0].digest === digest && ready(p);
      await seen('never', names(next.digest));
      await prewarmOf(cluster, 'follows', names(next.digest));
      expect(names(old.digest)(await seen('pinned', () => true))).toBe(true);
    }, 240_000);
  });
});
