import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { Progress } from '../../../src/preheat/planner.js';
import {
  SOURCE,
  T0,
  condition,
  context,
  digest,
  iso,
  lookup,
  prewarm,
  progress,
  resolvedOf,
  snapshot,
} from '../controller/fixtures.js';

const PULL_MS = 300_000;

describe('prewarms', () => {
  test('H-18 an eStargz variant that a node pulled in full is warm, and the status shows how long the pull took', () => {
    // What the record of the gang names is the variant; whether nodes read it lazily, nobody but the time can tell.
    const targets = [
      {
        name: 'main',
        images: [
          { source: SOURCE, resolved: resolvedOf('b'), digest: digest('a'), sizeBytes: 1e9, outcome: 'accelerated' as const },
        ],
      },
    ];
    const found = { ...lookup('a'), resolved: resolvedOf('b'), outcome: 'accelerated' as const };
    const step = (before: ImagePrewarmStatus, at: number, change: Partial<Progress>): ImagePrewarmStatus =>
      decidePrewarm(
        snapshot({ prewarm: prewarm({ ...before, targets }), lookups: new Map([[SOURCE, found]]), progress: progress(change) }),
        context({ now: at }),
      ).status;
    const pulling = step({}, T0, { warm: 0, pulling: 3 });
    // Not proven, so not warm, however the variant is called.
    expect(condition(pulling, 'Ready')).toMatchObject({ status: 'False', reason: 'PullingImages' });
    expect(pulling.completionTime).toBeUndefined();
    const warm = step(pulling, T0 + PULL_MS, {});
    expect(condition(warm, 'Ready')).toMatchObject({ status: 'True', reason: 'AllNodesWarm' });
    expect(warm.targets?.[0]?.images[0]).toMatchObject({ outcome: 'accelerated', sizeBytes: 1e9 });
    expect([warm.startTime, warm.completionTime, warm.size]).toEqual([iso(T0), iso(T0 + PULL_MS), expect.stringMatching(/^1/)]);
  });
});
