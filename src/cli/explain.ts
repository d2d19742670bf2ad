import type { Decision } from '../api/outcomes.js';
import { formatBytes } from '../api/quantity.js';
import { format, parseReference } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import { resolveSource } from '../images/resolve.js';
import { findVariant } from '../images/variant.js';
import type { Step } from '../images/variant.js';
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
  const { image, policies, namespaceLabels } = options;
  const situation: Situation = {
    pod: podWith(image),
    namespace: { name: 'default', labels: namespaceLabels, annotations: {} },
    records: [],
    policies,
  };
  const question = questionsOf(situation)[0];
  const found = question === undefined ? undefined : await look(question, options);
  const answers = new Map(question === undefined || found === undefined ? [] : [[question.key, found.answer]]);
  const decision = decide(situation, answers)[0]?.decision;
  if (decision === undefined) throw new Error('no image was given; write harbinger explain IMAGE');
  return { decision, steps: [...opening(options, question), ...(found?.steps ?? [])] };
}

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

async function look(
  { reference, policy }: Question,
  { port, platforms }: ExplainOptions,
): Promise<{ answer: Answer; steps: Step[] }> {
  const wanted = platforms === undefined ? {} : { platforms };
  const source = await resolveSource(format(reference), port, wanted);
  if (!source.ok) {
    const step: Step = { step: 'source', detail: source.message, verdict: source.reason === 'RegistryError' ? 'unknown' : 'no' };
    return { answer: { outcome: leaving(source.outcome), message: source.message }, steps: [step] };
  }
  const { variants: rules, freshness, output } = policy.spec;
  const {
    outcome,
    image,
    evidence,
    message,
    format: name,
  } = await findVariant({ source, rules, freshness, output, port, ...wanted });
  const details = { sourceDigest: source.digest, format: name, message };
  const size: Step = { step: 'size', detail: `${formatBytes(source.sizeBytes)} compressed, for one platform`, verdict: 'yes' };
  const steps = [...evidence.slice(0, 1), size, ...evidence.slice(1)];
  if (outcome === 'accelerated' && image !== undefined) return { answer: { ...details, outcome, image }, steps };
  return { answer: { ...details, outcome: leaving(outcome) }, steps };
}

/** The two outcomes that change an image need one to put there. */
function leaving(outcome: Decision['outcome']): Exclude<Decision['outcome'], 'accelerated' | 'pinned'> {
  return outcome === 'accelerated' || outcome === 'pinned' ? 'no-candidate' : outcome;
}
