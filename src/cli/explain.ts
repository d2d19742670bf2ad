import type { Json } from '../api/json.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import { LABEL, unservedNamespaces } from '../api/names.js';
import type { Decision } from '../api/outcomes.js';
import { formatBytes } from '../api/quantity.js';
import { format, parseReference } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Step } from '../images/ladder/variant.js';
import { obstacleTo } from '../placement/landing.js';
import type { Landing } from '../placement/landing.js';
import { findAnswer } from '../rewrite/answer.js';
import type { Finding } from '../rewrite/answer.js';
import { provenPatch } from '../rewrite/applies.js';
import { decide, questionsOf } from '../rewrite/decide.js';
import type { Question, Situation, Verdict } from '../rewrite/decide.js';
import type { PatchOp } from '../rewrite/patch.js';
import { buildPatch } from '../rewrite/patch.js';
import type { PodContainer, PodView } from '../rewrite/pod-view.js';
import { viewPod } from '../rewrite/pod-view.js';
import type { Policy } from '../rewrite/policy-match.js';
import { outOfScope } from '../rewrite/scope.js';
import type { NamespaceFacts, Skip } from '../rewrite/skip.js';
import { chainOf } from '../images/secret-names.js';
import { skipPod } from '../rewrite/skip.js';
import type { Ground, PodQuestion } from './ground.js';

export interface ExplainOptions {
  ground: Ground;
  port: RegistryPort;
  /** Milliseconds that never jump, for the time of each step; steps have no time when absent. */
  now?: () => number;
}

/** What would become of one container or image volume, and each step on the way to that. */
export interface Explanation {
  decision: Decision;
  steps: readonly Step[];
  /** The image is a variant that an earlier call of the webhook wrote. */
  already: boolean;
  /** Compressed bytes of one platform of the source, where it was resolved. */
  sizeBytes?: number;
}

/** Where a Pod can land, as far as it is known and decides anything. */
export interface NodesSeen {
  /** `linux/amd64`; absent where they are not known. */
  platforms?: readonly string[];
  /** Why nodes of now or later may be unable to run a format that policies name and plain nodes cannot run. */
  obstacles: Readonly<Record<string, string>>;
}

/** What would become of a Pod. */
export interface PodExplanation {
  namespace: string;
  /** Why the webhook would not look at the Pod at all; the rest says what it would do if it did. */
  unseen?: string;
  /** Why it is not known whether the webhook would change the Pod; the rest says what it would do if it may. */
  unsure?: string;
  nodes: NodesSeen;
  containers: readonly Explanation[];
  /** The RFC 6902 patch that the API server would be given; empty where the Pod stays as it is. */
  patch: readonly PatchOp[];
}

/**
 * Judges Pods by the functions that the webhook uses, and keeps the evidence. Findings are kept as long as the object lives, so that
 * a question which many Pods ask is answered once.
 */
export class Explainer {
  readonly #options: ExplainOptions;
  readonly #findings = new Map<string, Promise<Finding>>();

  constructor(options: ExplainOptions) {
    this.#options = options;
  }

  /** Throws where the Pod has no metadata or spec, or holds no images. */
  async pod(question: PodQuestion): Promise<PodExplanation> {
    const { ground } = this.#options;
    const raw = await ground.admitted(question);
    const pod = viewPod(raw);
    if (pod === undefined) throw new Error('the Pod has no metadata or no spec');
    const namespace = await ground.namespace(question.namespace);
    const unseen = whyUnseen(ground, namespace);
    const unsure = whyUnsure(ground, question);
    const common = {
      namespace: namespace.name,
      ...(unseen === undefined ? {} : { unseen }),
      ...(unsure === undefined ? {} : { unsure }),
    };
    const landing = ground.landing(pod.raw);
    const nodes = nodesSeen(landing, ground.policies);
    const skip = skipPod(pod, namespace);
    const left = skip === undefined ? [] : pod.containers.map((c) => skipped(c, skip));
    if (skip?.untouchable === true) return { ...common, nodes, containers: left, patch: [] };
    const situation = await this.#situation({ ...question, pod: raw }, pod, { namespace, landing, skip });
    const findings = await this.#find(question.namespace, questionsOf(situation));
    const answers = new Map([...findings].map(([key, { answer }]) => [key, answer]));
    const verdicts = decide(situation, answers);
    const judged = verdicts.map((verdict) => this.#explain(verdict, situation, findings));
    const rest = left.filter((l) => !judged.some((j) => j.decision.container === l.decision.container));
    const proven = provenPatch(pod.raw, buildPatch(pod, verdicts));
    if (proven.problem !== undefined)
      ground.notes.add(`the patch might not apply (${proven.problem}), so the webhook leaves the Pod alone; please report this`);
    const patch = unseen === undefined && unsure === undefined ? proven.ops : [];
    return { ...common, nodes, containers: [...judged, ...rest], patch };
  }

  /** Secrets are read for Pods only that a registry is asked about, as by the webhook. */
  async #situation(
    question: PodQuestion,
    pod: PodView,
    common: Pick<Situation, 'namespace' | 'landing' | 'skip'>,
  ): Promise<Situation> {
    const { ground } = this.#options;
    const { policies, config } = ground;
    const rewrite = whyUnsure(ground, question) === undefined ? config.rewrite : { ...config.rewrite, owners: ['*'] };
    const records = await ground.records(question);
    const quarantined = (image: string): string | undefined => ground.quarantined(question.namespace, image);
    const situation: Situation = {
      ...common,
      pod,
      records,
      policies,
      quarantined,
      chainFor: chainOf([]),
      rewrite,
    };
    if (config.rewrite.podSecrets === 'Off' || questionsOf(situation).length === 0) return situation;
    const { chainFor, problem } = await ground.credentials(question);
    return { ...situation, chainFor, credentialProblem: problem };
  }

  async #find(namespace: string, questions: readonly Question[]): Promise<Map<string, Finding>> {
    return new Map(await Promise.all(questions.map(async (q) => [q.key, await this.#once(namespace, q)] as const)));
  }

  /** Quarantine counts for one namespace only, so the question is another one in each. */
  #once(namespace: string, question: Question): Promise<Finding> {
    const { ground, port, now } = this.#options;
    const key = `${namespace} ${question.key}`;
    const known = this.#findings.get(key);
    if (known !== undefined) return known;
    const finding = findAnswer(question, port, {
      quarantined: (digest) => ground.quarantined(namespace, digest),
      ...(now === undefined ? {} : { now }),
    });
    this.#findings.set(key, finding);
    return finding;
  }

  /** The questions of one container are those of a Pod that has no other. */
  #explain({ decision, container, already }: Verdict, situation: Situation, findings: ReadonlyMap<string, Finding>): Explanation {
    const questions = questionsOf({ ...situation, pod: { ...situation.pod, containers: [container] } });
    const found = questions.flatMap((q) => findings.get(q.key) ?? []);
    const sizeBytes = found.at(-1)?.sizeBytes;
    return {
      decision,
      already,
      steps: [...opening(decision, questions[0]?.policy, situation), ...found.flatMap(withSize)],
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
    };
  }
}

/** Formats of which some images run on capable nodes only; of all others plain nodes run every image. */
const NODE_BOUND: readonly Format[] = ['nydus', 'overlaybd'];

function nodesSeen(landing: Landing | undefined, policies: readonly Policy[]): NodesSeen {
  const named = NODE_BOUND.filter((f) => policies.some(({ spec }) => spec.variants.some(({ format }) => format === f)));
  const obstacles = named.flatMap((f) => {
    const obstacle = obstacleTo(f, landing, false);
    return obstacle === undefined ? [] : [[f, obstacle] as const];
  });
  const platforms = landing?.platforms;
  return { ...(platforms === undefined ? {} : { platforms }), obstacles: Object.fromEntries(obstacles) };
}

/** A Pod with one container: the rest decides nothing, as opt-outs of a real Pod are for its own annotations to tell. */
export function podWith(image: string): Json {
  return { apiVersion: 'v1', kind: 'Pod', metadata: {}, spec: { containers: [{ name: 'app', image }] } };
}

function skipped({ name, image }: PodContainer, { outcome, message }: Skip): Explanation {
  const steps: Step[] = [{ step: 'opt-out', detail: message, verdict: 'no' }];
  return { decision: { container: name, source: image, outcome, image, message }, steps, already: false };
}

/** Where the configuration keeps the webhook from looking at the Pods of a namespace, or from changing them. */
function whyUnseen({ config, installedIn }: Ground, namespace: NamespaceFacts): string | undefined {
  if (config.mode !== 'On') return `mode is ${config.mode} in the configuration: no Pod is changed`;
  if (unservedNamespaces(installedIn).includes(namespace.name))
    return `namespace ${namespace.name} is one of those that the webhook is never called for`;
  return outOfScope(config.scope, namespace)?.problem;
}

/** The webhook goes by the owner of the Pod, which is another object than the one in the file for kinds that have their Pods made. */
function whyUnsure({ config: { rewrite } }: Ground, { assumedOwner }: PodQuestion): string | undefined {
  if (assumedOwner === undefined || rewrite.owners.some((owner) => owner === '*' || owner === assumedOwner)) return undefined;
  return `the owner of the Pods is not known: ${assumedOwner} may make them itself or have them made, and rewrite.owners of the configuration goes by their owner; explain one of them with --pod, or list ${assumedOwner} there if it is their owner`;
}

/** The steps before a registry is asked. */
function opening(decision: Decision, policy: Policy | undefined, { policies, namespace }: Situation): Step[] {
  const parsed = parseReference(decision.source);
  if (!parsed.ok) return [{ step: 'reference', detail: parsed.problem, verdict: 'no' }];
  const reference: Step = { step: 'reference', detail: format(parsed.reference), verdict: 'yes' };
  if (decision.outcome.startsWith('skipped-') && policy === undefined) {
    const step = decision.outcome === 'skipped-owner' || decision.outcome === 'skipped-gitops' ? 'owner' : 'opt-out';
    return [reference, { step, detail: decision.message ?? decision.outcome, verdict: 'no' }];
  }
  if (decision.prewarm !== undefined) {
    const detail = `ImagePrewarm ${decision.prewarm} gives its gang ${decision.image}`;
    return [reference, { step: 'record', detail, verdict: 'yes' }];
  }
  if (policy === undefined) return [reference, { step: 'policy', detail: noPolicy(policies, namespace), verdict: 'no' }];
  const { name, spec } = policy;
  return [reference, { step: 'policy', detail: `${name} (priority ${spec.priority}, ${spec.mode})`, verdict: 'yes' }];
}

function noPolicy(policies: readonly Policy[], { labels }: NamespaceFacts): string {
  if (policies.length === 0) return 'there are no policies; give some with --policy FILE';
  // Nobody is told here what holds for every namespace that gets as far.
  const telling = Object.entries(labels).filter(([key]) => key !== LABEL.accelerate && key !== 'kubernetes.io/metadata.name');
  const texts = telling.map(([key, value]) => `${key}=${value}`);
  const namespace = texts.length === 0 ? 'a namespace without labels' : `a namespace labelled ${texts.join(',')}`;
  return `none of ${policies.length} policies matches this image in ${namespace}`;
}

/** The size is told behind the source: it is what a cold node would pull. */
function withSize({ steps, sizeBytes }: Finding): Step[] {
  if (sizeBytes === undefined) return [...steps];
  const size: Step = { step: 'size', detail: `${formatBytes(sizeBytes)} compressed, for one platform`, verdict: 'yes' };
  return [...steps.slice(0, 1), size, ...steps.slice(1)];
}
