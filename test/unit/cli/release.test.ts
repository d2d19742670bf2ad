import { describe, expect, test } from '@jest/globals';
import { applyPatch } from 'rfc6902';
import type { GangName, RawWorkload } from '../../../src/cli/release/gang.js';
import { means, parseGangName, releasableGang } from '../../../src/cli/release/gang.js';
import type { Released } from '../../../src/cli/release/release.js';
import { releaseGangs, renderReleased } from '../../../src/cli/release/release.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { KubePort, PatchOp } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';

const GATES = 'kueue.x-k8s.io/admission-gated-by';
const OURS = 'harbinger.dev/image-prewarm';

const condition = (type: string): object => ({ type, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' });
const workload = (name: string, status: object, annotations: Record<string, string> = {}, kind = 'Job'): RawWorkload => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    name: `job-${name}-1a2b3`,
    namespace: 'team',
    uid: `uid-of-${name}`,
    annotations,
    ownerReferences: [
      { apiVersion: kind === 'Job' ? 'batch/v1' : 'kubeflow.org/v1', kind, name, uid: `uid-${name}`, controller: true },
    ],
  },
  status,
});
const pending = (name: string, state = 'Pending'): object => ({ admissionChecks: [{ name, state, message: '1/2 nodes warm' }] });
const heldStatus = { conditions: [condition('QuotaReserved')], admission: { clusterQueue: 'gang' }, ...pending('images') };
const checks = new Set(['images']);

describe('how a gang is held', () => {
  const rows: [string, RawWorkload, string, string][] = [
    [
      'by our check',
      workload('a', heldStatus),
      'check',
      'held by check images with quota of ClusterQueue gang since 2026-01-01T00:00:00Z: 1/2 nodes warm',
    ],
    ['by our gate', workload('a', {}, { [GATES]: OURS }), 'gate', 'gated without quota'],
    [
      'by the check of others',
      workload('a', { ...heldStatus, ...pending('theirs') }),
      'nothing',
      'it waits for theirs, which Harbinger has no part in',
    ],
    ['by the gate of others', workload('a', {}, { [GATES]: 'example.com/x' }), 'nothing', 'it is gated by example.com/x, which'],
    [
      'not any more: it is on its way back to its queue',
      workload('a', { ...heldStatus, ...pending('images', 'Retry') }),
      'nothing',
      'images sends it back to its queue, for which Kueue waits',
    ],
    ['not: it has no quota', workload('a', pending('images')), 'nothing', 'it waits for quota'],
    [
      'not: it is admitted',
      workload('a', { ...heldStatus, conditions: [condition('QuotaReserved'), condition('Admitted')] }),
      'nothing',
      'it is admitted',
    ],
    [
      'not: its check is Ready',
      workload('a', { ...heldStatus, ...pending('images', 'Ready') }),
      'nothing',
      'its checks are Ready',
    ],
  ];
  test.each(rows)('%s', (_title, raw, heldBy, why) =>
    expect(releasableGang(raw, checks)).toMatchObject({ heldBy, why: expect.stringContaining(why) }),
  );
  test('by any open check where checks may not be read', () =>
    expect(releasableGang(workload('a', { ...heldStatus, ...pending('theirs') }), undefined).heldBy).toBe('check'));
});

describe('the name of a gang', () => {
  const gang = releasableGang(workload('train', {}, {}, 'PyTorchJob'), checks);
  test.each([
    ['train', true],
    ['pytorchjob/train', true],
    ['PyTorchJobs.kubeflow.org/train', true],
    ['job-train-1a2b3', true],
    ['workloads/job-train-1a2b3', true],
    ['job/train', false],
    ['workload/train', false],
    ['trai', false],
  ])('%s', (text, is) => expect(means(parseGangName(text) as GangName, gang)).toBe(is));
  test.each(['', '/', 'job/', '/train', 'a/b/c'])('"%s" is none', (text) => expect(parseGangName(text)).toBeUndefined());
});

interface Patched {
  kind: string;
  name: string;
  body: unknown;
}

interface Cluster {
  /** Kinds that may not be patched, or listed. */
  denied?: string[];
  /** The list of gates of all jobs; absent: none. */
  gates?: string;
  /** Done before the first patch of a Workload arrives. */
  meanwhile?: (workloads: RawWorkload[]) => void;
  /** Kueue copies the list of a job to its Workload. */
  copies?: boolean;
}

/** A cluster of these Workloads that takes patches and tests what they ask it to. */
function cluster(
  workloads: RawWorkload[],
  { denied = [], gates = `example.com/x,${OURS}`, meanwhile, copies = true }: Cluster = {},
) {
  const patched: Patched[] = [];
  const refuse = (what: string): void => {
    if (denied.includes(what)) throw new KubeError(`${what} is forbidden`, { status: 403, reason: 'Forbidden' });
  };
  const jobs = new Map<string, RawWorkload>();
  const jobOf = (name: string): RawWorkload => {
    const metadata = { name, uid: `uid-${name}`, annotations: { [GATES]: gates } };
    const job = jobs.get(name) ?? { apiVersion: 'batch/v1', kind: 'Job', metadata };
    jobs.set(name, job);
    return job;
  };
  const workloadOf = (name: string): RawWorkload | undefined => workloads.find((w) => w.metadata.name === name);
  let pendingChange = meanwhile;
  const client = {
    async *list(resource: Resource) {
      await Promise.resolve();
      refuse(`list ${resource.kind}`);
      const check = { metadata: { name: 'images' }, spec: { controllerName: OURS } };
      yield structuredClone(resource.kind === 'Workload' ? workloads : [check]) as RawWorkload[];
    },
    get: (resource: Resource, { name }: { name: string }) =>
      Promise.resolve(structuredClone(resource.kind === 'Workload' ? workloadOf(name) : jobOf(name))),
    patch: (resource: Resource, { name }: { name: string }, patch: { body?: unknown; ops?: readonly PatchOp[] }) => {
      refuse(`patch ${resource.kind}`);
      if (resource.kind === 'Workload') {
        pendingChange?.(workloads);
        pendingChange = undefined;
      }
      const object = resource.kind === 'Workload' ? workloadOf(name) : jobOf(name);
      const ops = (patch.ops ?? []) as Parameters<typeof applyPatch>[1];
      if (applyPatch(structuredClone(object), ops).some((e) => e !== null))
        throw new KubeError('the test failed', { status: 422, reason: 'Invalid' });
      applyPatch(object, ops);
      patched.push({ kind: resource.kind, name, body: patch.body ?? patch.ops });
      const workload = workloadOf(`job-${name}-1a2b3`);
      if (copies && workload !== undefined) workload.metadata.annotations = { ...object?.metadata.annotations };
      return Promise.resolve({});
    },
  } as unknown as Pick<KubePort, 'get' | 'list' | 'patch'>;
  const notes: string[] = [];
  let now = 0;
  const clock = {
    now: () => now,
    setTimeout: (fn: () => void, ms: number) => ((now += ms), queueMicrotask(fn), { cancel: () => undefined }),
  };
  const release = (change: Partial<Parameters<typeof releaseGangs>[0]>): Promise<Released[]> =>
    releaseGangs(
      { namespace: 'team', names: [], all: false, dryRun: false, waitMs: 0, ...change },
      { client, clock, note: (text) => void notes.push(text) },
    );
  return { release, patched, notes };
}
const named = (name: string): { names: GangName[] } => ({ names: [{ name }] });

describe('letting gangs go', () => {
  test('a held one: never held again, and its present hold is stamped to be over', async () => {
    const { release, patched } = cluster([workload('a', heldStatus), workload('b', heldStatus)]);
    const results = await release(named('a'));
    expect(patched).toEqual([
      {
        kind: 'Workload',
        name: 'job-a-1a2b3',
        body: {
          metadata: {
            uid: 'uid-of-a',
            annotations: {
              'harbinger.dev/prewarm-hold': '0s',
              'harbinger.dev/hold-deadline': '2026-01-01T00:00:00Z',
              'harbinger.dev/hold-since': '2026-01-01T00:00:00Z',
            },
          },
        },
      },
    ]);
    expect(renderReleased(results)).toMatch(/^released {2}team\/Job\/a: held by check images /);
  });
  test('a gated one: our name comes off the job, no other', async () => {
    const { release, patched } = cluster([workload('a', {}, { [GATES]: OURS })]);
    expect((await release(named('a')))[0]?.result).toBe('released');
    expect(patched.map((p) => p.kind)).toEqual(['Job', 'Workload']);
    expect(patched[0]?.body).toContainEqual(expect.objectContaining({ op: 'replace', value: 'example.com/x' }));
  });
  test.each([
    ['an elastic job, whose list nobody copies: off its Workload too', { gates: OURS }, ['Job', 'Workload', 'Workload']],
    ['a job that never had our name: off its Workload', { gates: 'example.com/x' }, ['Workload', 'Workload']],
  ])('%s', async (_title, { gates }, kinds) => {
    const gang = workload('a', {}, { [GATES]: `example.com/y,${OURS}` });
    const { release, patched } = cluster([gang], { gates, copies: false });
    expect((await release(named('a')))[0]?.result).toBe('released');
    expect(patched.map((p) => p.kind)).toEqual(kinds);
    expect(gang.metadata.annotations?.[GATES]).toBe('example.com/y');
  });
  test('a gated Workload that nobody owns: our name comes off it', async () => {
    const gang = workload('a', {}, { [GATES]: OURS });
    gang.metadata.ownerReferences = [];
    const { release, patched } = cluster([gang]);
    expect(await release(named('job-a-1a2b3'))).toMatchObject([{ result: 'released', gang: 'Workload/job-a-1a2b3' }]);
    expect(patched.map((p) => p.kind)).toEqual(['Workload', 'Workload']);
    expect(gang.metadata.annotations).toEqual({});
  });
  test('a list that others change meanwhile is read again, and theirs does not come back', async () => {
    const gang = workload('a', {}, { [GATES]: `example.com/y,${OURS},example.com/z` });
    const { release } = cluster([gang], {
      gates: OURS,
      copies: false,
      meanwhile: () => void (gang.metadata.annotations = { [GATES]: `${OURS},example.com/z` }),
    });
    expect((await release(named('a')))[0]?.result).toBe('released');
    expect(gang.metadata.annotations?.[GATES]).toBe('example.com/z');
  });
  test('a Workload that was made anew meanwhile keeps its gate', async () => {
    const gang = workload('a', {}, { [GATES]: OURS });
    const { release } = cluster([gang], {
      gates: OURS,
      copies: false,
      meanwhile: () => void (gang.metadata.uid = 'later'),
    });
    await release(named('a'));
    expect(gang.metadata.annotations?.[GATES]).toBe(OURS);
  });
  test('a job that was made anew meanwhile keeps its gate', async () => {
    const gang = workload('a', {}, { [GATES]: OURS });
    gang.metadata.ownerReferences = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'a', uid: 'older', controller: true }];
    const { release, patched } = cluster([gang]);
    expect(await release(named('a'))).toMatchObject([
      { result: 'failed', message: 'its job was deleted and made anew; its Workload goes by itself' },
    ]);
    expect(patched).toEqual([]);
  });
  test('without the right to patch the job: which rights', async () => {
    const { release } = cluster([workload('a', {}, { [GATES]: OURS })], { denied: ['patch Job'] });
    expect(await release(named('a'))).toMatchObject([
      { result: 'failed', message: 'you may not get and patch Job a and patch Workload job-a-1a2b3' },
    ]);
  });
  test('all: those that are held, and only these', async () => {
    const { release } = cluster([
      workload('a', heldStatus),
      workload('b', pending('images')),
      workload('c', {}, { [GATES]: OURS }),
    ]);
    expect((await release({ all: true })).map((r) => r.gang)).toEqual(['Job/a', 'Job/c']);
  });
  test('none: it says so', async () =>
    expect(renderReleased(await cluster([]).release({ all: true }))).toBe('nothing is held\n'));
  test('a dry run writes nothing', async () => {
    const { release, patched } = cluster([workload('a', heldStatus)]);
    expect((await release({ ...named('a'), dryRun: true }))[0]?.result).toBe('would-release');
    expect(patched).toEqual([]);
  });
  test('one that is not there is an error that names it', () =>
    expect(cluster([]).release({ names: [{ kind: 'job', name: 'x' }] })).rejects.toThrow('no gang job/x in namespace team'));
  test('without the right to patch: which one, and the other way', async () => {
    const { release } = cluster([workload('a', heldStatus)], { denied: ['patch Workload'] });
    expect(await release(named('a'))).toMatchObject([
      {
        result: 'failed',
        message: expect.stringMatching(
          /^you may not patch Workload job-a-1a2b3; or, .*kubectl annotate -n team job\/a harbinger.dev\/prewarm-hold=0s/,
        ),
      },
    ]);
  });
  test('without the right to list', () =>
    expect(cluster([], { denied: ['list Workload'] }).release({ all: true })).rejects.toThrow(
      'you may not list Workloads in namespace team',
    ));
  test('without the right to read checks: it is told', async () => {
    const { release, notes } = cluster([workload('a', heldStatus)], { denied: ['list AdmissionCheck'] });
    expect((await release(named('a')))[0]?.result).toBe('released');
    expect(notes).toEqual([expect.stringContaining('every open check counts')]);
  });
  test('waiting ends when time is up, and says what still holds', async () => {
    const { release } = cluster([workload('a', heldStatus)]);
    expect(await release({ ...named('a'), waitMs: 5_000 })).toMatchObject([
      { result: 'still-held', message: expect.stringContaining('held by check images') },
    ]);
  });
  test('waiting ends at once where nothing holds', async () => {
    const { release } = cluster([workload('a', pending('images'))]);
    expect(await release({ ...named('a'), waitMs: 5_000 })).toMatchObject([{ result: 'not-held' }]);
  });
});
