import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmSpec, ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { Lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { specProblem } from '../../../src/controller/prewarm/spec-problem.js';
import { condition, context, iso, lookup, prewarm, progress, recorded, snapshot, SOURCE, T0 } from './fixtures.js';

const DEADLINE = 600_000;
const HOUR = 3_600_000;
const budgets = { gangsAheadPerQueue: 8, retainAfterAdmissionMs: 900_000, deadlineMs: DEADLINE };
const lifeOf = (object: ImagePrewarm, now: number): Lifecycle => lifecycle({ prewarm: object, now, ...budgets });

/** An object made by hand that was warm at T0 under generation 2. */
const warm = (spec: Partial<ImagePrewarmSpec> = {}): ImagePrewarmStatus =>
  decidePrewarm(snapshot({ prewarm: prewarm({ targets: recorded(), startTime: iso(T0 - 60_000) }, spec) }), context()).status;
const edited = (status: ImagePrewarmStatus, spec: Partial<ImagePrewarmSpec> = {}): ImagePrewarm => {
  const object = prewarm(status, spec);
  return { ...object, metadata: { ...object.metadata, generation: 3 } };
};

describe('an object that was edited after it had finished', () => {
  test.each<[string, Partial<ImagePrewarmSpec>, ImagePrewarm, Lifecycle]>([
    [
      'H-21: is worked on again, though nothing was held any more',
      { retain: 'Never' },
      edited(warm({ retain: 'Never' }), { retain: 'Never' }),
      { mayPull: true, keep: true },
    ],
    [
      'the control: without an edit it stays finished',
      { retain: 'Never' },
      prewarm(warm({ retain: 'Never' }), { retain: 'Never' }),
      { mayPull: false, keep: false, why: 'Finished' },
    ],
  ])('%s', (_title, _spec, object, want) => {
    expect(lifeOf(object, T0 + HOUR)).toEqual(want);
  });

  test('has a start and a deadline of its own', () => {
    const object = edited(warm());
    const cold = progress({ warm: 1, pulling: 2, runningSince: [T0 + HOUR] });
    const { status } = decidePrewarm(snapshot({ prewarm: object, progress: cold }), context({ now: T0 + HOUR }));
    expect(status).toMatchObject({ observedGeneration: 3, startTime: iso(T0 + HOUR) });
    expect(status).not.toHaveProperty('completionTime');
    const now = { ...object, status };
    expect(lifeOf(now, T0 + HOUR + DEADLINE - 1)).toEqual({ mayPull: true, keep: true });
    expect(lifeOf(now, T0 + HOUR + DEADLINE)).toEqual({ mayPull: false, keep: true, why: 'DeadlineExceeded' });
  });

  test('does not call it a loss that its new nodes are not warm yet', () => {
    const { events } = decidePrewarm(
      snapshot({ prewarm: edited(warm()), progress: progress({ warm: 1, pulling: 2 }) }),
      context({ now: T0 + HOUR }),
    );
    expect(events.map((e) => e.reason)).toEqual(['PrewarmStarted']);
  });

  test('is tried again after its deadline has passed', () => {
    const late = { observedGeneration: 2, startTime: iso(T0) };
    expect(lifeOf(prewarm(late), T0 + HOUR)).toEqual({ mayPull: false, keep: true, why: 'DeadlineExceeded' });
    expect(lifeOf(edited(late), T0 + HOUR)).toEqual({ mayPull: true, keep: true });
  });
});

describe('a spec that cannot be acted on', () => {
  const [target] = prewarm().spec.targets;
  if (target === undefined) throw new Error('the fixture has no target');
  test.each<[string, Partial<ImagePrewarmSpec>, RegExp | undefined]>([
    ['one target', {}, undefined],
    ['two targets of one name (a CRD without our rule)', { targets: [target, target] }, /two targets are named "main"/],
    [
      'a seed of a Dragonfly cluster',
      { seed: { dragonfly: { name: 'p2p' } } },
      /names "p2p", and the configuration has no such Dragonfly cluster: .*remove spec.seed/,
    ],
    ['a seed that names nothing', { seed: {} }, /remove spec.seed/],
  ])('%s', (_title, spec, problem) => {
    const found = specProblem(prewarm({}, spec));
    if (problem === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(problem);
  });
  test('is hopeless and says so in Ready and Failed', () => {
    const candidates = { reasons: {}, desired: 3, empty: [], problem: 'remove spec.seed' };
    const { status } = decidePrewarm(snapshot({ candidates }), context());
    for (const type of ['Ready', 'Failed'])
      expect(condition(status, type)).toMatchObject({ reason: 'Invalid', message: 'remove spec.seed' });
  });
});

describe('an image that was recorded unread', () => {
  const BY_DIGEST = SOURCE.replace(':v1', `@sha256:${'a'.repeat(64)}`);
  const targets = [{ name: 'main', images: [{ reference: BY_DIGEST }], nodes: { selector: {}, count: 3 } }];
  const unread = { source: BY_DIGEST, resolved: BY_DIGEST, digest: `sha256:${'a'.repeat(64)}`, outcome: 'pinned' as const };
  const object = prewarm(
    { targets: [{ name: 'main', images: [{ ...unread, message: 'size and variants unknown' }] }] },
    { targets },
  );
  const now = { ...lookup('a', T0), resolved: BY_DIGEST, pulledWith: 'Workload' as const };

  test('gets its size, and whose secret pulls it, from a later look; what Pods run stays', () => {
    const { status, record } = decidePrewarm(snapshot({ prewarm: object, lookups: new Map([[BY_DIGEST, now]]) }), context());
    expect(status.targets).toEqual([{ name: 'main', images: [{ ...unread, sizeBytes: 1e9, pulledWith: 'Workload' }] }]);
    expect(record).toMatchObject({ moved: [], held: [] });
  });
  test('the control: one that was read keeps its record', () => {
    const read = { ...unread, sizeBytes: 5 };
    const known = prewarm({ targets: [{ name: 'main', images: [read] }] }, { targets });
    const { status } = decidePrewarm(snapshot({ prewarm: known, lookups: new Map([[BY_DIGEST, now]]) }), context());
    expect(status.targets).toEqual([{ name: 'main', images: [read] }]);
  });
});
