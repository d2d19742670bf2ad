import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { History } from '../../cluster/history.js';
import { repoRoot } from '../../cluster/paths.js';
import { notYet, until } from '../../cluster/until.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import type { Ran } from '../cli/ground.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  ownedBy,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  SYSTEM,
  WORKLOAD,
  workloadOf,
} from '../controller/ground.js';
import { ELASTIC, gateCases, GATES, OURS } from './gates.js';

const JOB = 'batch/v1/Job';
/** Pods of an admitted gang have so long; holds of this file last longer. */
const PODS_READY_SECONDS = 15;
const GPU = 'example.com/gpu';

/** Every way in which a hold ends, on a real Kueue with its webhooks; gangs wait because no pull ends on two of the nodes. */
describe('a gang that is held for its images', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let began: number;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-holds',
      kueue: { webhooks: true, config: { waitForPodsReady: { timeout: `${PODS_READY_SECONDS}s`, blockAdmission: false } } },
      nodes: { fake: { count: 3, allocatable: { [GPU]: '8' } } },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { budgets: { tagRecheckSeconds: 5, unstampedHoldSeconds: 60 }, holds: { gatedJobs: 'On', gatedSeconds: 12 } },
    });
    await checkConfig('by-default', { defaultHoldSeconds: 600 });
    await checkConfig('sent-back', { defaultHoldSeconds: 15, onTimeout: 'Retry', maxRetries: 1 });
    await checkConfig('sent-back-later', { defaultHoldSeconds: 15, onTimeout: 'Retry', requeueAfterSeconds: 3, maxRetries: 1 });
    for (const [name, cpu, checkConfigName] of [
      ['default', '100', 'by-default'],
      // For one gang at a time.
      ['retry', '2', 'sent-back'],
      ['retry-later', '2', 'sent-back-later'],
      ['dropped', '100', undefined],
    ] as const)
      await cluster.kueueQueue({
        ...{ name, namespace: NS, quota: { cpu }, checks: [name] },
        ...(checkConfigName === undefined ? {} : { checkConfig: checkConfigName }),
      });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '100', [GPU]: '8' }, checks: [CHECK] });
    for (const name of ['free', 'early']) await cluster.kueueQueue({ name, namespace: NS, quota: { cpu: '100' } });
    await grants();
    await hang('true');
    began = Date.now();
    // It stays through all that ends the holds of the others: the twin of every row.
    await held('patient', { queue: QUEUE, gpus: 1 });
  }, 300_000);
  afterAll(async () => {
    if (process.env['SHOW_LOGS']) console.log(harbinger?.controllers[0]?.logs());
    await cluster?.stop();
  });

  const hang = async (value: string | null): Promise<void> => {
    for (const node of ['fake-1', 'fake-2']) await knob(cluster, node, knobNames.hang, value);
  };

  async function checkConfig(name: string, spec: Record<string, unknown>): Promise<void> {
    await cluster.client.apply({ apiVersion: 'harbinger.dev/v1alpha1', kind: 'PrewarmCheckConfig', metadata: { name }, spec });
  }

  /** What users of gated jobs bind, and what a person gets who may release gangs of one namespace. */
  async function grants(): Promise<void> {
    const rbac = 'rbac.authorization.k8s.io';
    const accounts = ['harbinger-controller', 'harbinger-webhook'].map((name) => ({
      kind: 'ServiceAccount',
      name,
      namespace: SYSTEM,
    }));
    const roleRef = { apiGroup: rbac, kind: 'ClusterRole', name: 'harbinger-gated-jobs' };
    const metadata = { name: 'releasers', namespace: NS };
    const rules = [
      { apiGroups: ['kueue.x-k8s.io'], resources: ['workloads'], verbs: ['get', 'list', 'patch'] },
      { apiGroups: ['batch'], resources: ['jobs'], verbs: ['get', 'patch'] },
    ];
    const subjects = [{ apiGroup: rbac, kind: 'User', name: 'researcher' }];
    await cluster.client.apply([
      { apiVersion: `${rbac}/v1`, kind: 'ClusterRoleBinding', metadata: { name: 'gated-jobs' }, roleRef, subjects: accounts },
      { apiVersion: `${rbac}/v1`, kind: 'Role', metadata, rules },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'RoleBinding',
        metadata,
        roleRef: { apiGroup: rbac, kind: 'Role', name: 'releasers' },
        subjects,
      },
    ]);
  }

  interface HeldOptions {
    queue: string;
    hold?: string | null;
    spec?: Record<string, unknown>;
    pods?: number;
    gpus?: number;
  }

  /** A gang that has quota and is held; each has an image of its own. */
  async function held(name: string, options: HeldOptions): Promise<string> {
    const resolved = await queued(name, options);
    await workloadOf(cluster, name, (w) => isHeld(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined);
    return resolved;
  }

  /** `hold: null`: what the check of its queue says. */
  async function queued(name: string, { queue, hold = '1h', spec = {}, pods = 2, gpus = 0 }: HeldOptions): Promise<string> {
    const { image, resolved } = await pushImage(cluster, name);
    const jobAnnotations = hold === null ? prewarm() : prewarm(hold);
    const requests = { cpu: '1', [GPU]: String(gpus) };
    const containers = [
      { name: 'train', image, command: ['/pause', 'sleep', '3600'], resources: { requests, limits: requests } },
    ];
    const more = gpus > 0 ? { containers } : {};
    await cluster.client.create(gang(name, image, { pods, queue, jobAnnotations, spec: { ...more, ...spec } }));
    return resolved;
  }

  const isHeld = (w: Raw): boolean => reserved(w) && !admitted(w) && checkOf(w)?.state === 'Pending';
  const annotate = (job: string, annotations: Record<string, string>): Promise<unknown> =>
    cluster.client.patch(JOB, `${NS}/${job}`, { metadata: { annotations } });
  const releasedBecause = async (job: string): Promise<string | undefined> =>
    conditionOf(await prewarmOf(cluster, job, (p) => conditionOf(p, 'Released')?.status === 'True'), 'Released')?.reason;

  interface Row {
    queue: string;
    hold?: string | null;
    /** What ends the hold. */
    cause: (name: string) => Promise<unknown>;
    /** What a user reads on the check then. */
    says: string | RegExp;
    released: string;
  }

  const rows: [string, Row][] = [
    [
      'its deadline',
      {
        ...{ queue: QUEUE, hold: '15s', cause: () => Promise.resolve() },
        ...{ says: /^timed out, starting cold: the hold of 15s is over with /, released: 'DeadlineExceeded' },
      },
    ],
    [
      'the removal of its opt-in',
      {
        ...{ queue: QUEUE, cause: (name) => annotate(name, { 'harbinger.dev/prewarm': 'false' }) },
        ...{ says: 'not opted in to prewarming', released: 'OptedOut' },
      },
    ],
    [
      'a hold that is taken back on the job',
      {
        ...{ queue: QUEUE, cause: (name) => annotate(name, { 'harbinger.dev/prewarm-hold': '0' }) },
        ...{ says: /^quota is reserved; let go with /, released: 'QuotaReservedCold' },
      },
    ],
    [
      'the deletion of the PrewarmCheckConfig that held it',
      {
        ...{
          queue: 'default',
          hold: null,
          cause: () => cluster.client.delete('harbinger.dev/v1alpha1/PrewarmCheckConfig', 'by-default'),
        },
        ...{ says: /^quota is reserved; let go with /, released: 'QuotaReservedCold' },
      },
    ],
  ];
  test.each(rows)(
    'is let go by %s, and no other is',
    async (title, { queue, hold, cause, says, released }) => {
      const name = title
        .replaceAll(/[^a-z]+/gi, '-')
        .toLowerCase()
        .slice(0, 30);
      await held(name, hold === undefined ? { queue } : { queue, hold });
      await cause(name);
      const workload = await workloadOf(cluster, name, admitted, 40_000);
      expect(checkOf(workload).message).toEqual(typeof says === 'string' ? says : expect.stringMatching(says));
      expect(await releasedBecause(name)).toBe(released);
      expect(isHeld(await workloadOf(cluster, 'patient'))).toBe(true);
      await removeJob(cluster, name);
    },
    200_000,
  );

  test('H-43: is let go soon after nodes are told that an image does not exist, with the name of the image on check and job', async () => {
    const { image } = await pushImage(cluster, 'gone');
    const reference = image.replace(/:v1$/, '');
    await knob(
      cluster,
      'fake-3',
      knobNames.pullFails,
      `rpc error: code = NotFound desc = failed to pull and unpack image "${reference}": ${reference}: not found`,
    );
    const at = Date.now();
    const spec = { nodeSelector: { 'kubernetes.io/hostname': 'fake-3' } };
    await cluster.client.create(gang('gone', image, { pods: 1, jobAnnotations: prewarm('10m'), spec }));
    const workload = await workloadOf(cluster, 'gone', admitted, 60_000);
    expect(Date.now() - at).toBeLessThan(60_000);
    expect(checkOf(workload).message).toMatch(new RegExp(`^let go cold, waiting cannot help: .*${reference}`));
    expect(await releasedBecause('gone')).toBe('Hopeless');
    const uid = (await cluster.client.get(JOB, `${NS}/gone`)).metadata.uid;
    await until('an event on the Job', async () => {
      const events = await cluster.client.list('events.k8s.io/v1/Event', { namespace: NS });
      const mine = events.filter((e) => e['regarding'].uid === uid);
      return (
        mine.some((e) => e['reason'] === 'ImageNotFound' && e['note'].includes(reference)) ||
        notYet(mine.map((e) => [e['reason'], e['note']]))
      );
    });
    await knob(cluster, 'fake-3', knobNames.pullFails, null);
    await removeJob(cluster, 'gone');
  }, 300_000);

  test('H-37: gives its quota to others where its check says Retry, keeps its pulls, and starts cold after the last try', async () => {
    // A watch: Kueue may give quota back and reserve it again between two looks.
    const history = new History(cluster.client, WORKLOAD, NS, (w) => ownedBy(w, 'again'));
    const resolved = await held('again', { queue: 'retry', hold: null });
    // It wants nothing of us, and waits for the quota of the held one.
    const { image } = await pushImage(cluster, 'next');
    await cluster.client.create(gang('next', image, { pods: 2, queue: 'retry' }));
    const uids = async (): Promise<string[]> => (await pullersOf(cluster, resolved)).map((p) => p.metadata.uid ?? '').sort();
    const before = await until('a puller of the gang', async () => {
      const now = await uids();
      return now.length > 0 ? now : notYet('none');
    });

    const sentBack = await history.reaches('its check to say Retry', (w) => checkOf(w)?.state === 'Retry');
    expect(checkOf(sentBack).message).toMatch(
      /^timed out, back to the queue: the hold of 15s is over with .*; quota again at its next turn \(1 of 1\)$/,
    );
    const evicted = await history.reaches('an eviction', (w) => isTrue(w, 'Evicted'));
    expect(conditionOf(evicted, 'Evicted')?.reason).toBe('AdmissionCheck');
    await history.reaches('its quota to be given back', (w) => !reserved(w));
    await workloadOf(cluster, 'next', admitted);
    expect(await uids()).toEqual(expect.arrayContaining(before));

    await removeJob(cluster, 'next');
    const second = await history.reaches('another try', (w) => reserved(w) && checkOf(w)?.retryCount === 1);
    expect(second['spec'].active).not.toBe(false);
    const last = await history.reaches('the last try to end', admitted);
    await history.stop();
    expect(checkOf(last).message).toMatch(/^timed out, starting cold: the hold of 15s is over for the 2nd time with /);
    expect(await uids()).toEqual(expect.arrayContaining(before));
    await removeJob(cluster, 'again');
  }, 300_000);

  test('that its check sends back has its quota until requeueAfterSeconds are over, which is why they are 0', async () => {
    const history = new History(cluster.client, WORKLOAD, NS, (w) => ownedBy(w, 'later'));
    await queued('later', { queue: 'retry-later', hold: null });
    const sentBack = checkOf(await history.reaches('its check to say Retry', (w) => checkOf(w)?.state === 'Retry'));
    expect(sentBack.message).toContain('; quota again in 3s at the earliest (1 of 1)');
    const evicted = await history.reaches('an eviction', (w) => isTrue(w, 'Evicted'));
    const at = conditionOf(evicted, 'Evicted')?.lastTransitionTime ?? '';
    // Kueue 0.19 waits first and evicts then. With one that does it the other way, the docs of requeueAfterSeconds have to change.
    expect(Date.parse(at) - Date.parse(sentBack.lastTransitionTime)).toBeGreaterThanOrEqual(3_000);
    expect(reserved(evicted)).toBe(true);
    await history.reaches('its quota to be given back', (w) => !reserved(w));
    await history.stop();
    await removeJob(cluster, 'later');
  }, 300_000);

  test('that starts when its queue gets a check is not sent back, however long ago its hold would have been over', async () => {
    const history = new History(cluster.client, WORKLOAD, NS, (w) => ownedBy(w, 'early'));
    // Its Pods wait for their image on a node that gets none.
    await queued('early', { queue: 'early', hold: '1s', spec: { nodeSelector: { 'kubernetes.io/hostname': 'fake-1' } } });
    const started = await history.reaches('its admission', admitted);
    const over = Date.parse(conditionOf(started, 'QuotaReserved')?.lastTransitionTime ?? '') + 1_000;
    await until('its hold to be over', () => Date.now() > over || notYet(`${over - Date.now()} ms left`));
    const admissionChecksStrategy = { admissionChecks: [{ name: 'retry' }] };
    await cluster.client.patch('kueue.x-k8s.io/v1beta2/ClusterQueue', 'early', { spec: { admissionChecksStrategy } });
    const asked = await history.reaches('its new check to be answered', (w) => (checkOf(w)?.state ?? 'Pending') !== 'Pending');
    await history.stop();
    expect(checkOf(asked)).toMatchObject({ state: 'Ready', message: 'the gang was admitted before this check was asked' });
    expect([admitted(asked), conditionOf(asked, 'Evicted')]).toEqual([true, undefined]);
    await removeJob(cluster, 'early');
  }, 300_000);

  test('outlives its ImagePrewarm: it is made anew, and the hold goes on under the deadline that was stamped', async () => {
    await held('forgotten', { queue: QUEUE });
    const first = await prewarmOf(cluster, 'forgotten');
    const stamp = (await workloadOf(cluster, 'forgotten')).metadata.annotations?.['harbinger.dev/hold-deadline'];
    await cluster.client.delete(PREWARM, `${NS}/${first.metadata.name}`);
    await prewarmOf(cluster, 'forgotten', (p) => p.metadata.uid !== first.metadata.uid);
    const after = await workloadOf(cluster, 'forgotten');
    expect(isHeld(after)).toBe(true);
    expect(after.metadata.annotations?.['harbinger.dev/hold-deadline']).toBe(stamp);
    await removeJob(cluster, 'forgotten');
  }, 300_000);

  test('is let go when its check is taken out of the queue and deleted', async () => {
    await held('unchecked', { queue: 'dropped' });
    await cluster.client.patch('kueue.x-k8s.io/v1beta2/ClusterQueue', 'dropped', { spec: { admissionChecksStrategy: null } });
    await cluster.client.delete('kueue.x-k8s.io/v1beta2/AdmissionCheck', 'dropped');
    await workloadOf(cluster, 'unchecked', admitted, 40_000);
    await removeJob(cluster, 'unchecked');
  }, 300_000);

  gateCases({ cluster: () => cluster, kubectl: (args) => kubectl(args) });

  /** Runs kubectl as the researcher, with Harbinger's executable as its plugin. */
  async function kubectl(args: readonly string[]): Promise<Ran> {
    const bin = join(cluster.runDir, 'plugins');
    mkdirSync(bin, { recursive: true });
    try {
      symlinkSync(join(repoRoot(), '.out/harbinger.mjs'), join(bin, 'kubectl-harbinger'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const env = {
      PATH: `${bin}:${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
      HOME: '/nonexistent',
      KUBECONFIG: cluster.kubeconfigForUser('researcher'),
    };
    return new Promise((resolve) => {
      execFile(cluster.kubectlPath, [...args], { env }, (error, out, err) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, out, err }),
      );
    });
  }

  test('is let go from the shell by a person who may patch Workloads of the namespace and no more', async () => {
    await held('by-hand', { queue: QUEUE });
    const dry = await kubectl(['harbinger', 'release', 'by-hand', '-n', NS, '--dry-run']);
    expect([dry.code, dry.out, dry.err]).toEqual([
      0,
      expect.stringMatching(
        /^would release {2}team\/Job\/by-hand: held by check images with quota of ClusterQueue gang since .*Z: /,
      ),
      expect.stringContaining('AdmissionChecks may not be read'),
    ]);
    expect(isHeld(await workloadOf(cluster, 'by-hand'))).toBe(true);
    const done = await kubectl(['harbinger', 'release', 'by-hand', '-n', NS, '--wait']);
    expect([done.code, done.out]).toEqual([0, expect.stringMatching(/^released {2}team\/Job\/by-hand: /)]);
    await workloadOf(cluster, 'by-hand', admitted);
    const missing = await kubectl(['harbinger', 'release', 'nobody', '-n', NS]);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining('no gang nobody in namespace team')]);
    const refused = await kubectl(['harbinger', 'release', '--all', '-n', 'default']);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('you may not list Workloads in namespace default')]);
    const wrong = await kubectl(['harbinger', 'release']);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('which gang?')]);
    await removeJob(cluster, 'by-hand');
  }, 300_000);

  test('is let go with the controller dead: by hand within seconds, and a gate in time', async () => {
    await held('orphaned', { queue: QUEUE });
    await harbinger.controllers[0]?.kill();
    const gated = { 'orphaned-gate': {}, 'orphaned-elastic-gate': ELASTIC };
    for (const [name, annotations] of Object.entries(gated)) {
      const { image } = await pushImage(cluster, name);
      const jobAnnotations = { [GATES]: OURS, ...prewarm('10m'), ...annotations };
      await cluster.client.create(gang(name, image, { pods: 2, queue: 'free', jobAnnotations }));
    }
    const { code, out } = await kubectl(['harbinger', 'release', 'orphaned', '-n', NS, '--wait', '--timeout', '30s']);
    expect([code, out]).toEqual([0, expect.stringMatching(/^released/)]);
    expect(checkOf(await workloadOf(cluster, 'orphaned', admitted)).message).toContain('DeadlineExceeded');
    // Nobody has stamped them, so they last for as long as the configuration says.
    for (const name of Object.keys(gated)) await workloadOf(cluster, name, admitted, 60_000);
    // The twin has its stamp, and minutes left.
    expect(isHeld(await workloadOf(cluster, 'patient'))).toBe(true);
    await harbinger.controllers[0]?.start();
    await harbinger.controllers[0]?.untilReady();
    for (const name of ['orphaned', ...Object.keys(gated)]) await removeJob(cluster, name);
  }, 300_000);

  test('H-40: is not evicted for Pods that are not ready while it is held, and is let go when all of its nodes are warm', async () => {
    const wait = began + PODS_READY_SECONDS * 1000;
    await until('the hold to be older than Pods may take', () => Date.now() > wait || notYet(`${wait - Date.now()} ms left`));
    const held = await workloadOf(cluster, 'patient');
    expect(isHeld(held)).toBe(true);
    expect(conditionOf(held, 'Evicted')).toBeUndefined();
    // Whether one is warm already is a matter of what other gangs pull on the third node.
    expect(checkOf(held).message).toMatch(/^[01]\/2 nodes warm.*held until/);
    await hang(null);
    const workload = await workloadOf(cluster, 'patient', admitted, 60_000);
    expect(checkOf(workload).message).toBe('images warm on 2/2 nodes');
    expect(await releasedBecause('patient')).toBe('WarmVerified');
    await workloadOf(cluster, 'patient', (w) => isTrue(w, 'PodsReady'), 60_000);
    expect(
      ready(await prewarmOf(cluster, 'patient')) ||
        conditionOf(await prewarmOf(cluster, 'patient'), 'Ready')?.reason === 'Finished',
    ).toBe(true);
  }, 300_000);

  test('costs GPUs that are counted by queue', async () => {
    await hang('true');
    await held('costly', { queue: QUEUE, gpus: 2, hold: '12s' });
    const before = await heldGpuSeconds();
    // Looked at every five seconds: two Pods with two GPUs each are at least twenty more.
    await until('the GPUs to be counted', async () => {
      const now = await heldGpuSeconds();
      return now >= before + 20 || notYet(`${before} became ${now}`);
    });
    await workloadOf(cluster, 'costly', admitted, 40_000);
    await hang(null);
    await removeJob(cluster, 'costly');
  }, 300_000);

  async function heldGpuSeconds(): Promise<number> {
    const text = (await harbinger.controllers[0]?.metrics()) ?? '';
    const line = text.split('\n').find((l) => l.startsWith('harbinger_held_gpu_seconds_total{queue="gang"}'));
    return Number(line?.split(' ').at(-1) ?? 0);
  }

  test('no call was refused', () => {
    for (const account of ['harbinger-controller', 'harbinger-webhook'])
      expect(cluster.audit.query({ user: `${SYSTEM}:${account}`, code: 403 }).map((e) => `${e.verb} ${e.uri}`)).toEqual([]);
  });
});
