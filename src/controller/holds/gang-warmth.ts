import { keyOf } from '../../api/object.js';
import type { Gang } from '../../gangs/shape.js';
import type { GangViews } from '../gangs/views.js';
import type { Guard } from '../gangs/guard.js';
import type { Clock } from '../../observe/clock.js';
import type { PlannerLoop } from '../pullers/planner-loop.js';
import { slowestOf } from '../prewarm/readiness.js';
import type { Warmth } from './decide.js';
import { isOfEarlierRun, isSeen, refusedWarmth, warmthOf } from './warmth.js';

export interface GangWarmthOptions {
  views: Pick<GangViews, 'prewarmOf' | 'refusalOf'>;
  guard: Pick<Guard, 'isChanging'>;
  planner: Pick<PlannerLoop, 'planOf'>;
  clock: Pick<Clock, 'now'>;
}

/** What a status says that is of an earlier run. */
const UNSAID = { current: false, hopeless: undefined, reason: 'Pending', message: '' } as const;

/** What every kind of hold goes by: how warm the nodes of a gang are, as its ImagePrewarm says and the plan bears out. */
export class GangWarmth {
  readonly #options: GangWarmthOptions;

  constructor(options: GangWarmthOptions) {
    this.#options = options;
  }

  /** Undefined while there is no ImagePrewarm yet. */
  of(gang: Gang): Warmth | undefined {
    const { views, guard, planner, clock } = this.#options;
    const prewarm = views.prewarmOf(gang);
    if (prewarm === undefined) return refusedWarmth(views.refusalOf(gang));
    const key = keyOf(prewarm);
    const changing = guard.isChanging({ key, resourceVersion: prewarm.metadata.resourceVersion ?? '' });
    const plan = planner.planOf(key);
    const slowest = plan?.progress === undefined ? undefined : slowestOf(plan.progress);
    const earlier = isOfEarlierRun(prewarm, gang.state, { now: clock.now(), deadlineMs: plan?.deadlineMs });
    return { ...warmthOf(prewarm, changing), ...(earlier ? UNSAID : {}), unseen: !isSeen(prewarm, plan), slowest };
  }
}
