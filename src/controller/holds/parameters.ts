import type { Condition } from '../../api/conditions.js';
import { setCondition } from '../../api/conditions.js';
import { at } from '../../api/json.js';
import { prewarmCheckConfigSpec } from '../../api/kinds/prewarm-check-config.js';
import { GROUP } from '../../api/names.js';
import type { Cache } from '../../kube/port.js';
import type { CheckView } from '../caches.js';

export interface CheckParameters {
  defaultHoldMs: number;
  minWarmPercent: number;
  /** Where a hold that is over sends the gang back to its queue: after how many ms it may have quota again (0: at its next turn), and how often at most. */
  retry?: { afterMs: number; times: number };
}

const DEFAULTS: CheckParameters = { defaultHoldMs: 0, minWarmPercent: 100 };

/**
 * What a check's PrewarmCheckConfig says. A reference that leads nowhere means defaults (hold nobody) and a problem to show: an
 * inactive check would stop every reservation of its ClusterQueues, and nobody who did not opt in may be held (promise P5).
 */
export function parametersOf(
  check: CheckView,
  configs: Pick<Cache<{ name: string; spec: unknown }>, 'get'>,
): { parameters: CheckParameters; problem?: string } {
  const ref = check.parameters;
  if (ref === undefined) return { parameters: DEFAULTS };
  const defaults = (problem: string) => ({
    parameters: DEFAULTS,
    problem: `${problem}; the defaults hold: no gang is held with quota reserved`,
  });
  if (ref.apiGroup !== GROUP || ref.kind !== 'PrewarmCheckConfig') {
    return defaults(`spec.parameters names ${ref.kind} of ${ref.apiGroup}, it must be a PrewarmCheckConfig of ${GROUP}`);
  }
  const found = configs.get(ref.name);
  if (found === undefined) return defaults(`there is no PrewarmCheckConfig ${ref.name}`);
  const parsed = prewarmCheckConfigSpec.safeParse(found.spec ?? {});
  if (!parsed.success) return defaults(`PrewarmCheckConfig ${ref.name}: ${parsed.error.issues.map((i) => i.message).join('; ')}`);
  const { defaultHoldSeconds, minWarmPercent, onTimeout, requeueAfterSeconds, maxRetries } = parsed.data;
  return {
    parameters: {
      defaultHoldMs: defaultHoldSeconds * 1000,
      minWarmPercent,
      ...(onTimeout === 'Retry' ? { retry: { afterMs: requeueAfterSeconds * 1000, times: maxRetries } } : {}),
    },
  };
}

/** The condition Active that a check should have, or undefined if it has it. */
export function activeCondition(check: CheckView, problem: string | undefined, nowIso: string): Condition | undefined {
  const before = check.conditions.map((c) => at(c) as unknown as Condition);
  const wanted = {
    type: 'Active',
    status: 'True' as const,
    reason: problem === undefined ? 'Active' : 'BadParametersRef',
    message: problem ?? 'Harbinger answers this check',
  };
  const old = before.find((c) => c.type === 'Active');
  if (old !== undefined && old.status === wanted.status && old.reason === wanted.reason && old.message === wanted.message)
    return undefined;
  return setCondition(before, wanted, nowIso).find((c) => c.type === 'Active');
}
