import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { expireHold, holdView, MAX_HOLD_MS } from '../../../src/gangs/hold.js';
import type { HoldView } from '../../../src/gangs/hold.js';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const OURS = new Set(['images']);
const UNSTAMPED = { unstampedHoldMs: 30_000 };

const held = (change: Partial<HoldView> = {}): HoldView => ({
  reservedAt: T0,
  admitted: false,
  evicted: false,
  finished: false,
  active: true,
  checks: [{ name: 'images', state: 'Pending', message: '' }],
  ...change,
});
const without = (field: keyof HoldView): HoldView =>
  Object.fromEntries(Object.entries(held()).filter(([k]) => k !== field)) as unknown as HoldView;

describe('the end of a hold', () => {
  const stamped = { deadline: T0 + 600_000 };
  const rows: [string, HoldView, number, ReturnType<typeof expireHold>][] = [
    ['no quota is reserved: nothing is held', without('reservedAt'), T0 + 1e9, undefined],
    ['it was admitted', held({ admitted: true }), T0 + 1e9, undefined],
    ['it was evicted', held({ evicted: true }), T0 + 1e9, undefined],
    ['it has finished', held({ finished: true }), T0 + 1e9, undefined],
    ['it is not active', held({ active: false }), T0 + 1e9, undefined],
    ['our check is Ready', held({ checks: [{ name: 'images', state: 'Ready', message: '' }] }), T0 + 1e9, undefined],
    ['the pending check is not ours', held({ checks: [{ name: 'quota', state: 'Pending', message: '' }] }), T0 + 1e9, undefined],
    ['unstamped, young: wait', held(), T0 + 1_000, { waitUntil: T0 + 30_000 }],
    ['unstamped, old: nobody vouches for it', held(), T0 + 30_000, { release: 'Unstamped' }],
    ['stamped: wait for the deadline', held(stamped), T0 + 300_000, { waitUntil: T0 + 600_000 }],
    ['stamped, at the deadline', held(stamped), T0 + 600_000, { release: 'DeadlineExceeded' }],
    [
      'a stamp from before this reservation vouches for nothing',
      held({ deadline: T0 - 1 }),
      T0 + 30_000,
      { release: 'Unstamped' },
    ],
    [
      'a stamp for an earlier reservation vouches for nothing, though its time is still to come',
      held({ ...stamped, deadlineSince: T0 - 60_000 }),
      T0 + 30_000,
      { release: 'Unstamped' },
    ],
    [
      'negative twin: a stamp for this very reservation counts',
      held({ ...stamped, deadlineSince: T0 }),
      T0 + 30_000,
      { waitUntil: T0 + 600_000 },
    ],
    ['a stamp for the year 3000 is cut to a day', held({ deadline: T0 + 1e13 }), T0 + 1, { waitUntil: T0 + MAX_HOLD_MS }],
    [
      'a clock that went back waits as long as the hold, and no longer',
      held(stamped),
      T0 - 1e9,
      { waitUntil: T0 - 1e9 + 600_000 },
    ],
    ['what the Workload itself asks for ends a hold that nobody stamped', held({ holdMs: 0 }), T0, { release: 'Unstamped' }],
    ['and one that was stamped before', held({ ...stamped, holdMs: 0 }), T0, { release: 'DeadlineExceeded' }],
    [
      'negative twin: a longer one than nobody vouches for is no stamp',
      held({ holdMs: 3_600_000 }),
      T0 + 1,
      { waitUntil: T0 + 30_000 },
    ],
  ];
  test.each(rows)('%s', (_title, view, now, expected) => {
    expect(expireHold(view, OURS, now, UNSTAMPED)).toEqual(expected);
  });

  test('a hold that was seen for its whole length ends, whatever the clock says', () => {
    const seen = (seenForMs: number) => expireHold(held(stamped), OURS, T0 - 1e9, { ...UNSTAMPED, seenForMs });
    expect(seen(600_000)).toEqual({ release: 'DeadlineExceeded' });
    expect(seen(599_000)).toEqual({ waitUntil: T0 - 1e9 + 1_000 });
  });

  test('property: every hold ends within a day, and once released it stays so', () => {
    fc.assert(
      fc.property(
        fc.option(fc.integer({ min: -1e12, max: 1e13 }), { nil: undefined }),
        fc.nat(2e9),
        fc.nat(2e9),
        (offset, a, b) => {
          const view = held(offset === undefined ? {} : { deadline: T0 + offset });
          expect(expireHold(view, OURS, T0 + MAX_HOLD_MS, UNSTAMPED)).toHaveProperty('release');
          const [early, late] = [T0 + Math.min(a, b), T0 + Math.max(a, b)];
          const ended = expireHold(view, OURS, early, UNSTAMPED);
          if (ended !== undefined && 'release' in ended) expect(expireHold(view, OURS, late, UNSTAMPED)).toEqual(ended);
        },
      ),
    );
  });
});

describe('the view of a Workload', () => {
  const base = { apiVersion: 'kueue.x-k8s.io/v1beta2', kind: 'Workload', metadata: { name: 'w', namespace: 'n' } };

  test('reads conditions, checks and the stamp', () => {
    const view = holdView({
      ...base,
      metadata: {
        ...base.metadata,
        annotations: {
          'harbinger.dev/hold-deadline': '2026-01-01T00:10:00Z',
          'harbinger.dev/hold-since': '2025-12-31T23:50:00Z',
        },
      },
      spec: { active: true },
      status: {
        conditions: [
          { type: 'QuotaReserved', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' },
          { type: 'Evicted', status: 'False' },
        ],
        admissionChecks: [{ name: 'images', state: 'Pending', message: 'm' }],
      },
    });
    expect(view).toEqual(
      held({
        deadline: T0 + 600_000,
        deadlineSince: T0 - 600_000,
        checks: [{ name: 'images', state: 'Pending', message: 'm' }],
      }),
    );
  });

  const sentBack = (reason: string, count: unknown) => ({
    schedulingStats: { evictions: [{ reason, underlyingCause: '', count }] },
  });
  test.each<[string, Record<string, unknown>, Record<string, unknown>, number | undefined]>([
    ['never', {}, {}, undefined],
    ['twice by its own count', { retryCount: 2 }, {}, 2],
    ['three times, of which its entry, made anew, knows nothing', {}, sentBack('AdmissionCheck', 3), 3],
    ['three times, of which its entry knows one', { retryCount: 1 }, sentBack('AdmissionCheck', 3), 3],
    ['never, though it was preempted', {}, sentBack('Preempted', 3), undefined],
    ['never, as the count is no number', {}, sentBack('AdmissionCheck', 'x'), undefined],
  ])('a check sent its gang back %s', (_title, entry, status, retries) => {
    const admissionChecks = [{ name: 'images', state: 'Pending', message: 'm', ...entry }];
    expect(holdView({ ...base, status: { admissionChecks, ...status } }).checks[0]?.retries).toBe(retries);
  });

  const garbage: [string, Record<string, unknown>][] = [
    ['no status at all', {}],
    ['conditions of null', { status: { conditions: null, admissionChecks: null } }],
    ['a status that is a text', { status: 'broken', spec: 7 }],
    ['entries of the wrong type', { status: { conditions: [1, 'x', null], admissionChecks: [{}, 'y'] } }],
  ];
  test.each(garbage)('%s counts as not held', (_title, parts) => {
    expect(expireHold(holdView({ ...base, ...parts }), OURS, T0 + 1e12, UNSTAMPED)).toBeUndefined();
  });

  test('annotations of null and a stamp that is no time count as unstamped', () => {
    for (const annotations of [null, { 'harbinger.dev/hold-deadline': 'soon', 'harbinger.dev/hold-since': 'then' }]) {
      const metadata = { ...base.metadata, annotations } as unknown as typeof base.metadata;
      expect(holdView({ ...base, metadata })).not.toHaveProperty('deadline');
      expect(holdView({ ...base, metadata })).not.toHaveProperty('deadlineSince');
    }
  });
});
