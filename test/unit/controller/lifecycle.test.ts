import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmSpec, ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import { currentWorkload } from '../../../src/controller/gangs/views.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { LifecycleInput } from '../../../src/controller/prewarm/lifecycle.js';
import { lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { conditionOf, gang, GANG_REF, iso, prewarm, T0 } from './fixtures.js';

const input = (change: Partial<LifecycleInput> = {}): LifecycleInput => ({
  prewarm: prewarm(),
  now: T0,
  gangsAheadPerQueue: 8,
  retainAfterAdmissionMs: 900_000,
  deadlineMs: 600_000,
  ...change,
});
const PULLS = { mayPull: true, keep: true };
const KEEPS = { mayPull: false, keep: true, why: 'NotQueued' };
const DROPS = { mayPull: false, keep: false, why: 'Finished' };

describe('a job whose Workload is gone', () => {
  const gone = (status: ImagePrewarmStatus = {}, spec: Partial<ImagePrewarmSpec> = {}) =>
    input({ prewarm: prewarm(status, { gangRef: GANG_REF, ...spec }) });
  const rows: [string, LifecycleInput, object][] = [
    ['positive control: an object made by hand has no Workload and is pulled', input(), PULLS],
    [
      'warm a moment ago: nothing new is pulled, what is there waits for its return',
      gone({ completionTime: iso(T0 - 899_000) }),
      KEEPS,
    ],
    ['warm long ago: its release may never have been written', gone({ completionTime: iso(T0 - 900_000) }), DROPS],
    ['warm long ago, WhileGangRuns', gone({ completionTime: iso(T0 - 900_000) }, { retain: 'WhileGangRuns' }), DROPS],
    ['warm a moment ago, Never', gone({ completionTime: iso(T0 - 1_000) }, { retain: 'Never' }), DROPS],
    ['never warm: nothing is there to wait with', gone(), DROPS],
    ['negative twin: made by hand and warm long ago', input({ prewarm: prewarm({ completionTime: iso(T0 - 900_000) }) }), PULLS],
    ['after it was let go: nothing is held', gone({ conditions: [conditionOf('Released', true, 'WarmVerified')] }), DROPS],
    ['after it ended: nothing is held', gone({ conditions: [conditionOf('Ready', false, 'Finished')] }), DROPS],
    [
      'after it ended, WhileGangRuns',
      gone({ conditions: [conditionOf('Released', true, 'WarmVerified')] }, { retain: 'WhileGangRuns' }),
      DROPS,
    ],
    [
      'negative twin: Always outlives every gang',
      gone({ conditions: [conditionOf('Released', true, 'WarmVerified')] }, { retain: 'Always' }),
      PULLS,
    ],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(lifecycle(given)).toEqual(expected));
});

const suspendedSince = (ms: number) =>
  prewarm({ conditions: [{ ...conditionOf('Ready', false, 'Suspended'), lastTransitionTime: iso(ms) }] });

describe('a gang that was admitted', () => {
  const finished = { conditions: [conditionOf('Ready', false, 'Finished')] };
  const admitted = { admitted: true, admittedAt: T0 - 60_000 };
  const HOLDS = { mayPull: false, keep: true, why: 'Finished' };
  const rows: [string, LifecycleInput, object][] = [
    ['holds what is warm until its Pods run', input({ gang: gang({}, admitted) }), HOLDS],
    ['holds nothing once they do', input({ gang: gang({}, { ...admitted, podsReady: true }) }), DROPS],
    ['nor when one of them is made again', input({ prewarm: prewarm(finished), gang: gang({}, admitted) }), DROPS],
    [
      'negative twin: evicted, and its Pods still end',
      input({ prewarm: prewarm(finished), gang: gang({}, { ...admitted, evicted: true }) }),
      HOLDS,
    ],
    [
      'negative twin: evicted and queued again it is pulled for',
      input({ prewarm: prewarm(finished), gang: gang({ position: 0 }, { ran: true }) }),
      PULLS,
    ],
    [
      'negative twin: WhileGangRuns is for Pods that are made again',
      input({ prewarm: prewarm(finished, { retain: 'WhileGangRuns' }), gang: gang({}, admitted) }),
      PULLS,
    ],
    [
      'and whose Pods do not start holds it for a while',
      input({ gang: gang({}, { ...admitted, admittedAt: T0 - 899_999 }) }),
      HOLDS,
    ],
    ['and no longer', input({ gang: gang({}, { ...admitted, admittedAt: T0 - 900_000 }) }), DROPS],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(lifecycle(given)).toEqual(expected));
});

describe('a gang without a place in a queue', () => {
  const rows: [string, LifecycleInput, object][] = [
    ['positive control: at the head', input({ gang: gang({ position: 0 }) }), PULLS],
    ['its LocalQueue is unknown: it pulls nothing, far less ahead of all others', input({ gang: gang() }), KEEPS],
    ['negative twin: quota is reserved, it is past the line', input({ gang: gang({}, { reservedAt: T0 }) }), PULLS],
    [
      'its Workload was made inactive just now: nothing is pulled, and what is there is held',
      input({ gang: gang({}, { active: false }) }),
      { mayPull: false, keep: true, why: 'Inactive' },
    ],
    [
      'its Workload has been inactive for less than images are held after an admission',
      input({ prewarm: suspendedSince(T0 - 899_000), gang: gang({}, { active: false }) }),
      { mayPull: false, keep: true, why: 'Inactive' },
    ],
    [
      'negative twin: for as long as that, nothing is held any more',
      input({ prewarm: suspendedSince(T0 - 900_000), gang: gang({}, { active: false }) }),
      { mayPull: false, keep: false, why: 'Inactive' },
    ],
    ['not active, Always', input({ prewarm: prewarm({}, { retain: 'Always' }), gang: gang({}, { active: false }) }), PULLS],
    [
      'too far back, Always: base images wait their turn too',
      input({ prewarm: prewarm({}, { retain: 'Always' }), gang: gang({ position: 8 }) }),
      { ...KEEPS, why: 'QueuePosition' },
    ],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(lifecycle(given)).toEqual(expected));
});

describe('a gang whose prewarm takes longer than it may', () => {
  const late = prewarm({ startTime: iso(T0 - 7_200_000) }, { gangRef: GANG_REF });
  const own = prewarm({ startTime: iso(T0 - 7_200_000) }, { gangRef: GANG_REF, activeDeadlineSeconds: 60 });
  const over = { mayPull: false, keep: true, why: 'DeadlineExceeded' };
  const reserved = (agoMs: number) => gang({}, { reservedAt: T0 - agoMs });
  const rows: [string, LifecycleInput, object][] = [
    ['while it waits in its queue it tries on', input({ prewarm: late, gang: gang({ position: 0 }) }), PULLS],
    ['while it waits, with a time of its own', input({ prewarm: own, gang: gang({ position: 0 }) }), PULLS],
    ['just reserved: its time begins with the quota', input({ prewarm: late, gang: reserved(0) }), PULLS],
    ['reserved for less than it may take', input({ prewarm: late, gang: reserved(599_999) }), PULLS],
    ['negative twin: reserved for longer', input({ prewarm: late, gang: reserved(600_000) }), over],
    ['negative twin: reserved for longer than its own time', input({ prewarm: own, gang: reserved(60_000) }), over],
    ['negative twin: made by hand', input({ prewarm: prewarm({ startTime: iso(T0 - 7_200_000) }) }), over],
    [
      'pulls that began after the reservation have their time from then on',
      input({ prewarm: prewarm({ startTime: iso(T0 - 599_000) }, { gangRef: GANG_REF }), gang: reserved(3_600_000) }),
      PULLS,
    ],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(lifecycle(given)).toEqual(expected));
});

describe('the Workload of a job with several', () => {
  const workload = (name: string, conditions: string[], spec: object = {}, created = '2026-01-01T00:00:00Z') =>
    projectWorkload({
      apiVersion: 'kueue.x-k8s.io/v1beta2',
      kind: 'Workload',
      metadata: { name, namespace: 'team', creationTimestamp: created },
      spec: { queueName: 'gpu', ...spec },
      status: { conditions: conditions.map((type) => ({ type, status: 'True', lastTransitionTime: created })) },
    });
  const running = workload('running', ['QuotaReserved', 'Admitted']);
  const rows: [string, ReturnType<typeof workload>[], string | undefined][] = [
    ['none', [], undefined],
    ['the slice that waits goes before the one that runs', [running, workload('pending', [])], 'pending'],
    ['a running one goes before an inactive one', [workload('off', [], { active: false }), running], 'running'],
    [
      'an inactive one goes before a finished one',
      [workload('done', ['Finished']), workload('off', [], { active: false })],
      'off',
    ],
    ['of two that wait the newer counts', [workload('a', []), workload('b', [], {}, '2026-01-02T00:00:00Z')], 'b'],
    ['a finished one is better than none', [workload('done', ['Finished'])], 'done'],
  ];
  test.each(rows)('%s', (_title, workloads, expected) => expect(currentWorkload(workloads)?.gang.name).toBe(expected));
});
