import type { HarbingerConfig } from '../config/schema.js';
import { gangKeysOfPod } from '../gangs/identity.js';
import type { KubeObject } from '../api/object.js';
import type { Log } from '../observe/log.js';
import { provenPatch } from '../rewrite/applies.js';
import type { Question, Situation, Verdict } from '../rewrite/decide.js';
import { decide, questionsOf } from '../rewrite/decide.js';
import type { PatchOp } from '../rewrite/patch.js';
import { buildPatch, imageOps } from '../rewrite/patch.js';
import type { PodView } from '../rewrite/pod-view.js';
import { viewEphemeral, viewPod } from '../rewrite/pod-view.js';
import { chainOf } from '../images/secret-names.js';
import { outOfScope } from '../rewrite/scope.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import { skipPod } from '../rewrite/skip.js';
import { recordedImages, steerOps } from '../rewrite/steer.js';
import type { AdmissionRequest } from './admission-review.js';
import type { Answers } from './answers.js';
import type { Facts } from './facts.js';
import type { Coverage } from './coverage.js';
import type { AdmissionMetrics } from './metrics.js';
import type { FoundCredentials, PodCredentials } from './pod-credentials.js';
import type { PolicyTallies } from './policy-tally.js';

export interface ReviewerOptions {
  config: () => HarbingerConfig;
  facts: Pick<Facts, 'problem' | 'policies' | 'namespace' | 'records' | 'landing' | 'quarantine'>;
  answers: Pick<Answers, 'ask'>;
  credentials: Pick<PodCredentials, 'of'>;
  coverage: Pick<Coverage, 'nodesWith'>;
  tallies: Pick<PolicyTallies, 'count'>;
  metrics: AdmissionMetrics;
  /** Milliseconds that never jump. */
  monotonic: () => number;
  log: Log;
}

/** What one request asks about. */
interface Subject {
  pod: PodView;
  /** Containers that are added to a Pod that runs: nothing else of it can change any more. */
  ephemeral: boolean;
  /** When the budget of the admission ends, by the clock that never jumps. */
  until: number;
}

/** Part of what is left of the budget that reading pull secrets may take; the rest is for the registry. */
const SECRETS_SHARE = 0.5;

const OWN_CREDENTIAL = chainOf([]);

type Common = Pick<Situation, 'namespace' | 'skip'>;

/** One Pod through `skip -> questions -> answers -> decide -> patch`; everything that decides is in src/rewrite. */
export class Reviewer {
  readonly #options: ReviewerOptions;

  constructor(options: ReviewerOptions) {
    this.#options = options;
  }

  /** The operations for one review; none where the Pod is left alone. */
  async review(request: AdmissionRequest): Promise<PatchOp[]> {
    const { config, facts, log, monotonic } = this.#options;
    const { mode, scope, rewrite, budgets } = config();
    const until = monotonic() + budgets.admissionMs;
    const asked = mode === 'Off' ? undefined : subjectOf(request, rewrite);
    if (asked === undefined) return [];
    const subject = { ...asked, until };
    if (facts.problem !== undefined) {
      log.warn({ uid: request.uid, problem: facts.problem }, 'caches not filled yet, Pod left alone');
      return [];
    }
    const namespace = await facts.namespace(request.namespace, budgets.admissionMs);
    // The selector of the webhook configuration says the same; asking again keeps a too wide one from widening our reach.
    if (namespace === undefined || outOfScope(scope, namespace) !== undefined) return [];
    const ops = await this.#judge(request, subject, namespace);
    return mode === 'Observe' ? [] : this.#proven(request, subject, ops);
  }

  async #judge(request: AdmissionRequest, subject: Subject, namespace: NamespaceFacts): Promise<PatchOp[]> {
    const { config, metrics, tallies } = this.#options;
    const { pod, ephemeral } = subject;
    const skip = skipPod(pod, namespace);
    if (skip !== undefined) {
      for (const _ of pod.containers) metrics.decision(skip.outcome);
      if (skip.untouchable === true || ephemeral) return [];
    }
    const verdicts = await this.#decide(request, subject, { namespace, skip });
    if (skip === undefined)
      for (const { decision, already, unconfirmed } of verdicts)
        metrics.decision(unconfirmed ?? (already ? 'already-accelerated' : decision.outcome), decision);
    const { mode } = config();
    // Of a dry run nothing may stay behind.
    if (!request.dryRun) tallies.count(verdicts, mode === 'On');
    this.#report(request, verdicts, mode);
    return ephemeral ? imageOps(verdicts) : [...buildPatch(pod, verdicts), ...this.#steer(pod, verdicts)];
  }

  /** Where the images of the gang are held, if Pods are to be told. */
  #steer(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
    const { config, coverage } = this.#options;
    const images = config().nodes.steer === 'Off' ? [] : recordedImages(verdicts);
    return images.length === 0 ? [] : steerOps(pod, coverage.nodesWith(images));
  }

  async #decide(request: AdmissionRequest, subject: Subject, common: Common): Promise<Verdict[]> {
    const { answers, facts, monotonic } = this.#options;
    const { until } = subject;
    let situation = this.#situation(request, subject, common);
    let questions = questionsOf(situation);
    const found = await this.#credentials(request.namespace, subject, questions);
    if (found !== undefined) {
      situation = { ...situation, chainFor: found.chainFor, credentialProblem: found.problem };
      questions = questionsOf(situation);
    }
    const answered = await answers.ask(questions, Math.max(0, until - monotonic()), facts.quarantine(request.namespace));
    const verdicts = decide(situation, answered);
    if (verdicts.some((v) => v.decision.outcome === 'auth-denied')) found?.doubt();
    return verdicts;
  }

  #situation(request: AdmissionRequest, { pod, ephemeral }: Subject, common: Common): Situation {
    const { config, facts } = this.#options;
    const { policies } = facts;
    // Whoever debugs a member of a gang asks for what the tag names now; what is added is no member.
    const records = ephemeral ? [] : facts.records(request.namespace, gangKeysOfPod(pod.raw as unknown as KubeObject));
    // Field by field: a spread would be a twentieth of an admission.
    return {
      namespace: common.namespace,
      skip: common.skip,
      pod,
      records,
      policies,
      landing: policies.length + records.length === 0 ? undefined : facts.landing(pod.raw),
      quarantined: (image) => facts.quarantine(request.namespace)?.messageOf(image),
      chainFor: OWN_CREDENTIAL,
      rewrite: config().rewrite,
    };
  }

  /** Secrets are read for Pods only that a registry is asked about. */
  async #credentials(
    namespace: string,
    { pod, until }: Subject,
    questions: readonly Question[],
  ): Promise<FoundCredentials | undefined> {
    const { config, credentials, monotonic } = this.#options;
    if (config().rewrite.podSecrets === 'Off' || questions.length === 0) return undefined;
    return credentials.of(namespace, pod, Math.max(0, until - monotonic()) * SECRETS_SHARE);
  }

  /** A patch that does not apply has the Pod refused whatever the failure policy is; doubt leaves it alone. */
  #proven(request: AdmissionRequest, { pod }: Subject, ops: PatchOp[]): PatchOp[] {
    const { metrics, log } = this.#options;
    const { ops: proven, problem } = provenPatch(pod.raw, ops);
    if (problem === undefined) return proven;
    metrics.unproven();
    log.error(
      { uid: request.uid, namespace: request.namespace, pod: request.name, problem },
      'patch might not apply, Pod left alone',
    );
    return proven;
  }

  /** One line per Pod whose images change; the rest is in metrics, in the annotation and, at level debug, here. */
  #report(request: AdmissionRequest, verdicts: readonly Verdict[], mode: HarbingerConfig['mode']): void {
    const { log } = this.#options;
    const changed = verdicts.filter((v) => v.decision.image !== v.container.image).map((v) => v.decision);
    const about = {
      uid: request.uid,
      namespace: request.namespace,
      pod: request.name,
      ...(request.dryRun ? { dryRun: true } : {}),
    };
    if (changed.length > 0)
      log.info({ ...about, mode, decisions: changed }, mode === 'Observe' ? 'images would be changed' : 'images changed');
    else if (log.isLevelEnabled('debug'))
      log.debug({ ...about, decisions: verdicts.map((v) => v.decision) }, 'images left alone');
  }
}

/**
 * What a request is about; undefined for all that is none of ours. New Pods only: on UPDATE an image change restarts a container,
 * and most of a Pod is immutable. The one exception are containers that an update adds.
 */
function subjectOf(
  request: AdmissionRequest,
  { ephemeralContainers }: HarbingerConfig['rewrite'],
): Omit<Subject, 'until'> | undefined {
  const { resource, subresource, operation, object, oldObject } = request;
  if (resource !== 'pods') return undefined;
  const ephemeral = subresource === 'ephemeralcontainers' && operation === 'UPDATE' && ephemeralContainers;
  if (!ephemeral && (subresource !== '' || operation !== 'CREATE')) return undefined;
  const pod = ephemeral ? viewEphemeral(object, oldObject) : viewPod(object);
  return pod === undefined ? undefined : { pod, ephemeral };
}
