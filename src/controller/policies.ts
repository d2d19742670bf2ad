import { setCondition } from '../api/conditions.js';
import { formatTime } from '../api/duration.js';
import type { PolicyStatus } from '../api/kinds/acceleration-policy.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { Cache } from '../kube/port.js';
import type { RawObject } from '../kube/reflector.js';
import type { Result } from '../kube/work-queue.js';
import type { Clock } from '../observe/clock.js';
import type { PolicyReading } from '../rewrite/policy-match.js';
import { readPolicy } from '../rewrite/policy-match.js';
import type { Actuator } from './actions.js';

/** An AccelerationPolicy as it can be evaluated, and what its status says about that. */
export interface PolicyView {
  reading: PolicyReading;
  generation: number;
  status: PolicyStatus;
}

/** Reads with the eyes of the webhook: what is Ready here is what it evaluates. */
export function projectPolicy(raw: RawObject): PolicyView {
  const status = (raw['status'] ?? {}) as Partial<PolicyStatus>;
  return {
    reading: readPolicy(raw),
    generation: raw.metadata.generation ?? 0,
    status: { ...status, conditions: status.conditions ?? [] },
  };
}

/** What our status of a policy has to be, or undefined where it is so already; other conditions belong to other writers. */
export function decidePolicyStatus({ reading, generation, status }: PolicyView, nowIso: string): PolicyStatus | undefined {
  const verdict = reading.ok
    ? ({ status: 'True', reason: 'Valid', message: 'new Pods are judged by this policy' } as const)
    : ({ status: 'False', reason: 'Invalid', message: reading.problem } as const);
  const before = status.conditions.filter((c) => c.type === 'Ready').slice(0, 1);
  const conditions = setCondition(before, { type: 'Ready', observedGeneration: generation, ...verdict }, nowIso);
  const same = (['status', 'reason', 'message', 'observedGeneration'] as const).every(
    (f) => before[0]?.[f] === conditions[0]?.[f],
  );
  return same && status.observedGeneration === generation ? undefined : { observedGeneration: generation, conditions };
}

interface PoliciesOptions {
  caches: { policies: Pick<Cache<PolicyView>, 'get'> };
  actuator: Pick<Actuator, 'perform'>;
  mode: () => HarbingerConfig['mode'];
  clock: Clock;
}

/** Keeps condition Ready on AccelerationPolicies: a policy that is ignored for a mistake in it says so where its author looks. */
export class PolicyReconciler {
  readonly #options: PoliciesOptions;

  constructor(options: PoliciesOptions) {
    this.#options = options;
  }

  async reconcile(name: string): Promise<Result> {
    const { caches, actuator, mode, clock } = this.#options;
    const view = caches.policies.get(name);
    const status = view === undefined || mode() === 'Off' ? undefined : decidePolicyStatus(view, formatTime(clock.now()));
    if (status !== undefined) await actuator.perform({ type: 'write-policy-status', name, status });
    return {};
  }
}
