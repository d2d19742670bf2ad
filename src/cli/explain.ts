import type { Decision } from '../api/outcomes.js';
import { formatBytes } from '../api/quantity.js';
import { format, parseReference } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Step } from '../images/variant.js';
import { findAnswer } from '../rewrite/answer.js';
import { decide, questionsOf } from '../rewrite/decide.js';
import type { Answer, Question, Situation } from '../rewrite/decide.js';
import { viewPod } from '../rewrite/pod-view.js';
import type { PodView } from '../rewrite/pod-view.js';
import type { Policy } from '../rewrite/policy-match.js';

export interface ExplainOptions {
  image: string;
  /** In the order of `inOrder`. */
  policies: readonly Policy[];
  namespaceLabels: Readonly<Record<string, string>>;
  port: RegistryPort;
  /** Platforms of the nodes (`linux/amd64`); all of the image when absent. */
  platforms?: readonly string[];
}

/** What would happen to the image in a new Pod, and each step on the way to that. */
export interface Explanation {
  decision: Decision;
  steps: readonly Step[];
}

/** Decides exactly as the webhook does for a Pod with one container, and keeps the evidence. */
export async function explain(options: ExplainOptions): Promise<Explanation> {
  const { image, policies, namespaceLabels, platforms } = options;
  const situation: Situation = {
    pod: podWith(image),
    namespace: { name: 'default', labels: namespaceLabels, annotations: {} },
    records: [],
    policies,
    landing: platforms === undefined ? undefined : { platforms, now: {}, later: {}, key: platforms.join(',') },
    chainFor: () => [undefined],
    rewrite: { owners: ['*'], imageVolumes: false },
  };
  const question = questionsOf(situation)[0];
  const found = question === undefined ? undefined : await look(question, options);
  const answers = new Map(question === undefined || found === undefined ? [] : [[question.key, found.answer]]);
  const decision = decide(situation, answers)[0]?.decision;
  if (decision === undefined) throw new Error('no image was given; write harbinger explain IMAGE');
  return { decision, steps: [...opening(options, question), ...(found?.steps ?? [])] };
}

/** The rest of the Pod decides nothing here: opt-outs of a real Pod are for its own annotations to tell. */
function podWith(image: string): PodView {
  const pod = viewPod({ metadata: {}, spec: { containers: [{ name: 'app', image }] } });
  if (pod === undefined) throw new Error('a Pod with one container could not be read');
  return pod;
}

/** The steps before a registry is asked. */
function opening({ image, policies, namespaceLabels }: ExplainOptions, question: Question | undefined): Step[] {
  const parsed = parseReference(image);
  if (!parsed.ok) return [{ step: 'reference', detail: parsed.problem, verdict: 'no' }];
  const reference: Step = { step: 'reference', detail: format(parsed.reference), verdict: 'yes' };
  if (question === undefined) {
    const labels = Object.entries(namespaceLabels).map(([key, value]) => `${key}=${value}`);
    const namespace = labels.length === 0 ? 'a namespace without labels' : `a namespace labelled ${labels.join(',')}`;
    const none = `none of ${policies.length} policies matches this image in ${namespace}`;
    const detail = policies.length === 0 ? 'there are no policies; give some with --policy FILE' : none;
    return [reference, { step: 'policy', detail, verdict: 'no' }];
  }
  const { name, spec } = question.policy;
  return [reference, { step: 'policy', detail: `${name} (priority ${spec.priority}, ${spec.mode})`, verdict: 'yes' }];
}

/** The size is told behind the source: it is what a cold node would pull. */
async function look(question: Question, { port }: ExplainOptions): Promise<{ answer: Answer; steps: Step[] }> {
  const { answer, steps, sizeBytes } = await findAnswer(question, port);
  if (sizeBytes === undefined) return { answer, steps: [...steps] };
  const size: Step = { step: 'size', detail: `${formatBytes(sizeBytes)} compressed, for one platform`, verdict: 'yes' };
  return { answer, steps: [...steps.slice(0, 1), size, ...steps.slice(1)] };
}
