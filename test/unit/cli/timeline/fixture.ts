import type { GangTimes, LegName } from '../../../../src/cli/timeline/model.js';

/** A gang on two nodes; `wait` and `pull` in seconds relative to free quota, which happened at `zero`. */
export function gang(leg: LegName, o: { queued: number; wait: number; pull?: [number, number]; zero?: number }): GangTimes {
  const zero = o.zero ?? 1_800_000_000_000;
  const at = (seconds: number): number => zero + seconds * 1000;
  return {
    leg,
    pods: 2,
    queuedAt: at(-o.queued),
    quotaFreeAt: zero,
    admittedAt: at(0.3),
    firstRunningAt: at(o.wait - 0.1),
    lastRunningAt: at(o.wait),
    nodes: ['node-1', 'node-2'].map((node) => ({
      node,
      ...(o.pull === undefined ? {} : { pullFrom: at(o.pull[0]), pullTo: at(o.pull[1]) }),
      runningAt: at(o.wait),
    })),
  };
}

export const COLD = gang('cold', { queued: 3, wait: 54.1, pull: [0.9, 53.8] });
export const OURS = gang('harbinger', { queued: 58, wait: 1.6, pull: [-56, -2], zero: 1_900_000_000_000 });
export const WARM = gang('warm', { queued: 3, wait: 1.3, zero: 1_700_000_000_000 });
