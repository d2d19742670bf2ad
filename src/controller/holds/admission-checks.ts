import { formatTime } from '../../api/duration.js';
import { CHECK_CONTROLLER } from '../../api/names.js';
import type { Result } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import { activeCondition, parametersOf } from './parameters.js';

/** Keeps condition Active on the AdmissionChecks that name us; Kueue reserves nothing through a check without it. */
export class AdmissionCheckReconciler {
  readonly #options: { caches: Caches; actuator: Actuator; clock: Clock };

  constructor(options: { caches: Caches; actuator: Actuator; clock: Clock }) {
    this.#options = options;
  }

  async reconcile(name: string): Promise<Result> {
    const { caches, actuator, clock } = this.#options;
    const check = caches.checks.get(name);
    if (check === undefined || check.controllerName !== CHECK_CONTROLLER) return {};
    const { problem } = parametersOf(check, caches.checkConfigs);
    const condition = activeCondition(check, problem, formatTime(clock.now()));
    if (condition !== undefined) await actuator.perform({ type: 'activate-check', name, condition });
    return {};
  }
}
