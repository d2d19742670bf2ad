import { describe, expect, test } from '@jest/globals';
import { applyPatch } from 'rfc6902';
import type { Json } from '../../../src/api/json.js';
import type { KubeObject } from '../../../src/api/object.js';
import { defaultConfig } from '../../../src/config/load.js';
import type { Action } from '../../../src/controller/actions.js';
import type { WorkloadView } from '../../../src/controller/gangs/sources/kueue.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { Warmth } from '../../../src/controller/holds/decide.js';
import type { GatedJobsOptions } from '../../../src/controller/holds/gated-jobs.js';
import { GatedJobsReconciler } from '../../../src/controller/holds/gated-jobs.js';
import { KubeError } from '../../../src/kube/errors.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { iso, T0 } from './fixtures.js';

const MINUTE = 60_000;
const GATES = 'kueue.x-k8s.io/admission-gated-by';
const OURS = 'harbinger.dev/image-prewarm';
const cold: Warmth = { ready: false, current: true, desired: 3, warm: 2, message: '', reason: 'PullingImages' };
const warm: Warmth = { ...cold, ready: true, warm: 3, reason: 'AllNodesWarm' };

type Raw = KubeObject & Json;

const JOB: Raw = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name: 'train', namespace: 'team', uid: 'u', creationTimestamp: iso(T0), annotations: { [GATES]: OURS } },
};
const SET: Raw = { ...JOB, apiVersion: 'leaderworkerset.x-k8s.io/v1', kind: 'LeaderWorkerSet', spec: { replicas: 2 } };
const without = (object: Raw): Raw => ({ ...object, metadata: { ...object.metadata, annotations: {} } });

/** A gated Workload, for a job where one is named, with its end stamped as the controller does first. */
const gated = (name: string, job?: Raw, gates = OURS): Raw => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    ...{ name, namespace: 'team', uid: `uid-${name}`, creationTimestamp: iso(T0) },
    annotations: { [GATES]: gates, 'harbinger.dev/gate-deadline': iso(T0 + 10 * MINUTE) },
    ownerReferences:
      job === undefined
        ? []
        : [{ apiVersion: job.apiVersion, kind: job.kind, name: 'train', uid: 'u', controller: job.kind === 'Job' }],
  },
  spec: { queueName: 'gpu', podSets: [{ name: 'main', count: 1, template: { spec: { containers: [{ image: 'i:1' }] } } }] },
});

/** Workloads and their job at an API server that tests what it is asked to; `copies`: Kueue copies the list of the job at once. */
function ground({ job, workloads, copies = false }: { job?: Raw; workloads: Raw[]; copies?: boolean }) {
  const objects = new Map([...(job === undefined ? [] : [job]), ...workloads].map((o) => [`${o.kind} ${o.metadata.name}`, o]));
  const warmth = new Map<string, Warmth>();
  const clock = new FakeClock(T0 + MINUTE);
  const patched: string[] = [];
  const ended: string[] = [];
  const events: { reason: string; kind: string }[] = [];
  const views = (): WorkloadView[] => [...objects.values()].filter((o) => o.kind === 'Workload').map(projectWorkload);
  const copy = (): void => {
    const list = [...objects.values()].find((o) => o.kind !== 'Workload')?.metadata.annotations?.[GATES];
    for (const [key, workload] of objects) {
      if (workload.kind !== 'Workload') continue;
      const { [GATES]: _was, ...rest } = workload.metadata.annotations ?? {};
      const annotations = { ...rest, ...(list === undefined ? {} : { [GATES]: list }) };
      objects.set(key, { ...workload, metadata: { ...workload.metadata, annotations } });
    }
  };
  const perform = (action: Action): Promise<void> => {
    if (action.type === 'stamp-deadline') return Promise.resolve(void patched.push(`stamp ${action.workload.name}`));
    if (action.type !== 'remove-gate') return Promise.reject(new Error(`not expected: ${action.type}`));
    const key = `${action.resource.kind} ${action.job.name}`;
    const changed = structuredClone(objects.get(key));
    const failed = applyPatch(changed, action.ops as Parameters<typeof applyPatch>[1]).some((e) => e !== null);
    if (failed) return Promise.reject(new KubeError('the test failed', { status: 422, reason: 'Invalid' }));
    objects.set(key, changed as Raw);
    patched.push(key);
    if (copies) copy();
    return Promise.resolve();
  };
  const options = {
    caches: {
      workloads: {
        get: (key: string) => views().find((w) => w.key === key),
        byIndex: (_index: string, value: string) => views().filter(({ gate }) => `team/${gate?.job?.uid}` === value),
      },
    },
    views: { optInOf: () => ({ optedIn: true, problems: [] }) },
    client: {
      get: ({ kind }: { kind: string }, { name }: { name: string }) => {
        const found = objects.get(`${kind} ${name}`);
        return found === undefined
          ? Promise.reject(new KubeError(`no ${kind}`, { status: 404, reason: 'NotFound' }))
          : Promise.resolve(found);
      },
    },
    actuator: { perform },
    warmth: { of: ({ name }: { name: string }) => warmth.get(name) ?? cold },
    counts: { ended: (hold: string, reason: string) => ended.push(`${hold} ${reason}`) },
    events: {
      event: ({ reason, regarding }: { reason: string; regarding: { kind: string } }) =>
        events.push({ reason, kind: regarding.kind }),
    },
    config: () => ({ ...defaultConfig(), holds: { gatedJobs: 'On', gatedSeconds: 600 } }),
    clock,
    log: keepLog().log,
  };
  const reconciler = new GatedJobsReconciler(options as unknown as GatedJobsOptions);
  return {
    ...{ clock, objects, patched, ended, events },
    become: (name: string, now: Warmth) => void warmth.set(name, now),
    gatesOf: (key: string) => objects.get(key)?.metadata.annotations?.[GATES],
    look: (name = 'w') => reconciler.reconcile(`team/${name}`),
    /** Looks as often as it asks to within so many ms. */
    async follow(ms: number, name = 'w'): Promise<void> {
      const end = clock.now() + ms;
      while (clock.now() <= end) {
        const { after } = await reconciler.reconcile(`team/${name}`);
        if (after === undefined) return;
        await clock.advance(Math.max(1, after));
      }
    },
  };
}

describe('a gate whose job', () => {
  test('is copied by Kueue comes off the job alone', async () => {
    const seen = ground({ job: JOB, workloads: [gated('w', JOB)], copies: true });
    seen.become('w', warm);
    await seen.follow(10_000);
    expect(seen.patched).toEqual(['Job train']);
    expect(seen.ended).toEqual(['Gate WarmVerified']);
  });

  test('is elastic, so that nobody copies its list, comes off the Workload too, after Kueue had time to copy, and is told once', async () => {
    const seen = ground({ job: JOB, workloads: [gated('w', JOB, `a.example/x,${OURS}`)] });
    seen.become('w', warm);
    await seen.look();
    await seen.look();
    expect(seen.patched).toEqual(['Job train']);
    await seen.follow(10_000);
    expect(seen.patched).toEqual(['Job train', 'Workload w']);
    expect(seen.gatesOf('Workload w')).toBe('a.example/x');
    expect(seen.ended).toEqual(['Gate WarmVerified']);
    expect(seen.events).toEqual([{ reason: 'UngatedWarmVerified', kind: 'Job' }]);
  });

  test('is let go, and goes cold before the Workload is: it goes all the same', async () => {
    const seen = ground({ job: JOB, workloads: [gated('w', JOB)] });
    seen.become('w', warm);
    await seen.look();
    seen.become('w', cold);
    await seen.follow(10_000);
    expect(seen.gatesOf('Workload w')).toBeUndefined();
  });

  test('never had our name, as with a prebuilt Workload, comes off the Workload', async () => {
    const seen = ground({ job: without(JOB), workloads: [gated('w', JOB)] });
    await seen.follow(10_000);
    expect(seen.patched).toEqual([]);
    seen.become('w', warm);
    await seen.follow(10_000);
    expect(seen.patched).toEqual(['Workload w']);
    expect(seen.events).toEqual([{ reason: 'UngatedWarmVerified', kind: 'Job' }]);
  });

  test('does not exist yet comes off the Workload at once, and its owner is told there', async () => {
    const seen = ground({ workloads: [gated('w')] });
    seen.become('w', warm);
    await seen.look();
    expect(seen.patched).toEqual(['Workload w']);
    expect(seen.events).toEqual([{ reason: 'UngatedWarmVerified', kind: 'Workload' }]);
  });

  test('comes later than its Workload counts from the Workload on', async () => {
    const { metadata } = JOB;
    const late = without({ ...JOB, metadata: { ...metadata, creationTimestamp: iso(T0 + 9 * MINUTE) } });
    const seen = ground({ job: late, workloads: [gated('w', JOB)] });
    await seen.clock.advance(9 * MINUTE);
    await seen.follow(10_000);
    expect(seen.ended).toEqual(['Gate DeadlineExceeded']);
    expect(seen.patched).toEqual(['Workload w']);
  });

  test('negative twin: is another one of that name by now leaves the Workload alone', async () => {
    const later = { ...JOB, metadata: { ...JOB.metadata, uid: 'later' } };
    const seen = ground({ job: later, workloads: [gated('w', JOB)] });
    seen.become('w', warm);
    await seen.follow(MINUTE);
    expect(seen.patched).toEqual([]);
  });

  test('and Workload lose a name of others while we write: that is looked at again, and theirs does not come back', async () => {
    const seen = ground({ workloads: [gated('w', undefined, `a.example/x,${OURS},b.example/y`)] });
    seen.become('w', warm);
    const looked = seen.look();
    seen.objects.set('Workload w', gated('w', undefined, `${OURS},b.example/y`));
    expect(await looked).toEqual({ after: 1_000 });
    expect(seen.ended).toEqual([]);
    await seen.look();
    expect(seen.gatesOf('Workload w')).toBe('b.example/y');
    expect(seen.ended).toEqual(['Gate WarmVerified']);
  });
});

describe('the gate of a set of two groups', () => {
  const groups = [gated('w', SET), gated('w-1', SET)];

  test('waits for both to be warm', async () => {
    const seen = ground({ job: SET, workloads: groups, copies: true });
    seen.become('w', warm);
    expect(await seen.look()).toEqual({ after: 30_000 });
    expect(seen.patched).toEqual([]);
    seen.become('w-1', warm);
    await seen.look('w-1');
    expect(seen.patched).toEqual(['LeaderWorkerSet train']);
    expect(await seen.look()).toEqual({});
    expect(seen.ended).toEqual(['Gate WarmVerified']);
  });

  test('waits for a group that Kueue has not made yet', async () => {
    const seen = ground({ job: SET, workloads: groups.slice(0, 1), copies: true });
    seen.become('w', warm);
    expect(await seen.look()).toEqual({ after: 30_000 });
    expect(seen.patched).toEqual([]);
  });

  test('is stamped although one is warm at first sight, so that the watchdog ends it in time', async () => {
    const raw = gated('w', SET);
    const workloads = [{ ...raw, metadata: { ...raw.metadata, annotations: { [GATES]: OURS } } }];
    const seen = ground({ job: SET, workloads, copies: true });
    seen.become('w', warm);
    await seen.look();
    expect(seen.patched).toEqual(['stamp w']);
  });

  test('goes at its end, also where Kueue never makes the other', async () => {
    const seen = ground({ job: SET, workloads: groups.slice(0, 1), copies: true });
    seen.become('w', warm);
    await seen.follow(10 * MINUTE);
    expect(seen.patched).toEqual(['LeaderWorkerSet train']);
    expect(seen.ended).toEqual(['Gate DeadlineExceeded']);
  });

  test('goes at its end, whoever is cold', async () => {
    const seen = ground({ job: SET, workloads: groups, copies: true });
    seen.become('w', warm);
    await seen.follow(10 * MINUTE, 'w-1');
    expect(seen.patched).toEqual(['LeaderWorkerSet train']);
    expect(seen.ended).toEqual(['Gate DeadlineExceeded']);
  });
});
