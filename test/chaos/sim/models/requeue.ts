import type { Json } from '../../../../src/api/json.js';
import { at, number, records, string, time } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { conditionOf } from '../../invariants/read.js';
import { CHECK } from './world.js';

// What Kueue 0.19 keeps of evictions in the status of a Workload, and what it reads from there (pkg/workload, pkg/workload/evict).

export type EvictionReason = 'Preempted' | 'PodsReadyTimeout' | 'Deactivated' | 'AdmissionCheck';

export const checks = (workload: Raw): Json[] => records(at(workload, 'status')['admissionChecks']);
export const pending = (since: string): object => ({ name: CHECK, state: 'Pending', message: '', lastTransitionTime: since });

/** Why the gang lost its quota last, until it is given quota again. */
export function evictionReason(workload: Raw): string | undefined {
  const evicted = conditionOf(workload, 'Evicted');
  return evicted?.status === 'True' ? evicted.reason : undefined;
}

/** The checks after an eviction. How often a check said Retry is counted as long as it says nothing else. */
export function resetChecks(workload: Raw, since: string): object[] {
  return checks(workload).map((check) => {
    const { name, state, requeueAfterSeconds } = check;
    if (state === 'Pending') return check;
    return {
      name,
      state: 'Pending',
      message: `Reset to Pending after eviction. Previously: ${string(state) ?? ''}`,
      lastTransitionTime: since,
      ...(requeueAfterSeconds === undefined ? {} : { requeueAfterSeconds }),
      ...(state === 'Retry' ? { retryCount: (number(check['retryCount']) ?? 0) + 1 } : {}),
    };
  });
}

/** `status.schedulingStats` with one more eviction. */
export function withEviction(workload: Raw, reason: EvictionReason): object {
  const before = records(at(workload, 'status', 'schedulingStats')['evictions']);
  const count = number(before.find((e) => e['reason'] === reason)?.['count']) ?? 0;
  return { evictions: [...before.filter((e) => e['reason'] !== reason), { reason, underlyingCause: '', count: count + 1 }] };
}

/** Until when checks that say Retry want the gang to wait, epoch ms. */
export function retryEnd(workload: Raw): number | undefined {
  const ends = checks(workload).flatMap((check) => {
    const [since, after] = [time(check['lastTransitionTime']), number(check['requeueAfterSeconds'])];
    return check['state'] === 'Retry' && since !== undefined && after !== undefined ? [since + after * 1000] : [];
  });
  return ends.length === 0 ? undefined : Math.max(...ends);
}

/** Before this time (epoch ms) the gang is given no quota. */
export const requeueAt = (workload: Raw): number | undefined => time(at(workload, 'status', 'requeueState')['requeueAt']);

export function isQueued(workload: Raw, now: number): boolean {
  return conditionOf(workload, 'Requeued')?.status !== 'False' && (requeueAt(workload) ?? 0) <= now;
}

/** The time by which gangs of one priority are ordered: who was sent back, or did not start in time, goes to the back. */
export function queuedSince(workload: Raw): number {
  const evicted = conditionOf(workload, 'Evicted');
  const toTheBack = evicted?.status === 'True' && ['AdmissionCheck', 'PodsReadyTimeout'].includes(evicted.reason);
  return toTheBack ? evicted.since : (time(workload.metadata.creationTimestamp) ?? 0);
}
