import { changesImage } from '../api/outcomes.js';
import { LABEL } from '../api/names.js';
import type { HarbingerConfig } from '../config/schema.js';
import { gangUidsOfPod } from '../gangs/identity.js';
import type { KubeObject } from '../api/object.js';
import type { Log } from '../observe/log.js';
import type { Situation, Verdict } from '../rewrite/decide.js';
import { decide, questionsOf } from '../rewrite/decide.js';
import type { PatchOp } from '../rewrite/patch.js';
import { buildPatch, forgetDecisions } from '../rewrite/patch.js';
import type { PodView } from '../rewrite/pod-view.js';
import { viewPod } from '../rewrite/pod-view.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import { skipPod } from '../rewrite/skip.js';
import type { AdmissionRequest } from './admission-review.js';
import type { Answers } from './answers.js';
import type { Facts } from './facts.js';
import type { AdmissionMetrics } from './metrics.js';

export interface ReviewerOptions {
  config: () => HarbingerConfig;
  facts: Pick<Facts, 'problem' | 'policies' | 'namespace' | 'records'>;
  answers: Pick<Answers, 'ask'>;
  metrics: AdmissionMetrics;
  log: Log;
}

/** One Pod through `skip -> questions -> answers -> decide -> patch`; everything that decides is in src/rewrite. */
export class Reviewer {
  readonly #options: ReviewerOptions;

  constructor(options: ReviewerOptions) {
    this.#options = options;
  }

  /** The operations for one review; none where the Pod is left alone. */
  async review(request: AdmissionRequest): Promise<PatchOp[]> {
    const { config, facts, log } = this.#options;
    const { mode, scope } = config();
    // Only creation: on UPDATE an image change restarts a container, and most of the Pod is immutable.
    if (mode === 'Off' || request.operation !== 'CREATE' || request.resource !== 'pods' || request.subresource !== '') return [];
    if (facts.problem !== undefined) {
      log.warn({ uid: request.uid, problem: facts.problem }, 'caches not filled yet, Pod left alone');
      return [];
    }
    const pod = viewPod(request.object);
    const namespace = pod === undefined ? undefined : await facts.namespace(request.namespace);
    if (pod === undefined || namespace === undefined || !inScope(scope, namespace)) return [];
    const ops = await this.#judge(request, pod, namespace);
    return mode === 'Observe' ? [] : ops;
  }

  async #judge(request: AdmissionRequest, pod: PodView, namespace: NamespaceFacts): Promise<PatchOp[]> {
    const { config, facts, answers, metrics } = this.#options;
    const skip = skipPod(pod, namespace);
    if (skip !== undefined) {
      for (const _ of pod.containers) metrics.decision(skip.outcome, undefined);
      return skip.untouchable === true ? [] : forgetDecisions(pod);
    }
    const records = facts.records(request.namespace, gangUidsOfPod(pod.raw as unknown as KubeObject));
    const situation: Situation = {
      pod,
      namespace,
      records,
      policies: facts.policies,
      chainFor: () => [undefined],
      rewrite: config().rewrite,
    };
    const answered = await answers.ask(questionsOf(situation), config().budgets.admissionMs);
    const verdicts = decide(situation, answered);
    for (const { decision, already } of verdicts)
      metrics.decision(already ? 'already-accelerated' : decision.outcome, decision.format);
    const ops = buildPatch(pod, verdicts);
    this.#report(request, verdicts, config().mode);
    return ops;
  }

  /** One line per Pod whose images change; the rest is in metrics, in the annotation and, at level debug, here. */
  #report(request: AdmissionRequest, verdicts: readonly Verdict[], mode: HarbingerConfig['mode']): void {
    const changed = verdicts.filter((v) => changesImage(v.decision.outcome) && !v.already).map((v) => v.decision);
    const about = { uid: request.uid, namespace: request.namespace, pod: request.name };
    if (changed.length > 0)
      this.#options.log.info(
        { ...about, mode, decisions: changed },
        mode === 'Observe' ? 'images would be changed' : 'images changed',
      );
    else this.#options.log.debug({ ...about, decisions: verdicts.map((v) => v.decision) }, 'images left alone');
  }
}

/** The webhook configuration's own selector says the same; asking again keeps a too wide one from widening our reach. */
function inScope(scope: HarbingerConfig['scope'], { labels }: NamespaceFacts): boolean {
  const label = labels[LABEL.accelerate];
  return scope === 'AllNamespaces' ? label !== 'disabled' : label === 'enabled';
}
