import { Explainer, podWith } from '../../cli/explain.js';
import type { Explanation, PodExplanation } from '../../cli/explain.js';
import { renderNotes, renderPod, renderTree } from '../../cli/explain-text.js';
import { readManifests } from '../../cli/manifests.js';
import { printed } from '../../cli/output.js';
import { podsOf } from '../../cli/pods-of.js';
import { titleOf, namespaceOf } from '../../cli/objects.js';
import type { PodQuestion } from '../../cli/ground.js';
import { UsageError } from '../usage.js';
import { openGround } from './ground.js';
import type { GroundFlags } from './ground.js';

export interface ExplainFlags extends GroundFlags {
  pod?: string;
  output: 'tree' | 'json' | 'yaml';
}

interface Titled extends PodQuestion {
  title: string;
}

/** Prints what would become of an image in a new Pod, or of all images of the Pods in a file. */
export async function runExplain(image: string | undefined, flags: ExplainFlags): Promise<void> {
  if (image === undefined && flags.pod === undefined)
    throw new UsageError('nothing to explain; write harbinger explain IMAGE, or --pod FILE');
  const { ground, port, namespace, close } = await openGround(flags);
  try {
    const titled = flags.pod === undefined ? [] : await podsIn(flags.pod, namespace);
    const explainer = new Explainer({ ground, port, now: () => performance.now() });
    if (image !== undefined && titled.length === 0) {
      const found = await explainer.pod({ namespace, pod: podWith(image) });
      process.stdout.write(imageText(found, ground.notes.all, flags.output));
      return;
    }
    const found = [];
    for (const { title, ...question } of titled) found.push({ title, ...(await explainer.pod(question)) });
    process.stdout.write(podsText(only(image, found), ground.notes.all, flags.output));
  } finally {
    await close();
  }
}

async function podsIn(path: string, namespace: string): Promise<Titled[]> {
  const found: Titled[] = [];
  for await (const entry of readManifests(path, process.stdin)) {
    if ('problem' in entry) throw new Error(`${entry.problem.file}:${entry.problem.line ?? 1}: ${entry.problem.message}`);
    const { object } = entry.manifest;
    for (const { path: at, ...rest } of podsOf(object))
      found.push({ title: titleOf(object, at, namespace), namespace: namespaceOf(object, namespace), ...rest });
  }
  if (found.length === 0) throw new Error(`${path} holds no Pod and no object with a Pod template`);
  return found;
}

/** With an image and a file, those containers of the file that have the image. */
function only<T extends PodExplanation>(image: string | undefined, pods: readonly T[]): T[] {
  if (image === undefined) return [...pods];
  const having = pods.map((pod) => ({ ...pod, containers: pod.containers.filter(({ decision }) => decision.source === image) }));
  const kept = having.filter(({ containers }) => containers.length > 0);
  if (kept.length === 0) throw new Error(`no container of the Pods in the file has the image ${image}`);
  return kept;
}

function imageText(pod: PodExplanation, notes: readonly string[], output: ExplainFlags['output']): string {
  const { unseen, nodes } = pod;
  const [explanation] = pod.containers;
  if (explanation === undefined) throw new Error('a Pod with one container has no decision');
  if (output === 'tree') return renderNotes(notes, pod) + renderTree(explanation);
  return printed({ notes, ...(unseen === undefined ? {} : { unseen }), ...data(explanation), nodes }, output);
}

function podsText(
  pods: readonly (PodExplanation & { title: string })[],
  notes: readonly string[],
  output: ExplainFlags['output'],
): string {
  if (output === 'tree')
    return renderNotes(notes) + pods.map((pod) => renderNotes([], pod) + renderPod(pod.title, pod)).join('\n');
  const plain = pods.map(({ title, containers, ...rest }) => ({ object: title, ...rest, containers: containers.map(data) }));
  return printed({ notes, pods: plain }, output);
}

/** What programs get of an image; `already` only where it holds. */
function data({ decision, steps, already, sizeBytes }: Explanation): object {
  return { decision, ...(already ? { already } : {}), ...(sizeBytes === undefined ? {} : { sizeBytes }), steps };
}
