import { changesImage } from '../api/outcomes.js';
import type { Step } from '../images/ladder/variant.js';
import type { PatchOp } from '../rewrite/patch.js';
import type { Explanation, NodesSeen, PodExplanation } from './explain.js';
import { drawTree, leaf } from './tree.js';
import type { Branch } from './tree.js';

const MARK: Readonly<Record<Step['verdict'], string>> = { yes: '✓', no: '✗', unknown: '?', skip: '-' };
/** Longest value of a patch that is printed whole; `-o json` has all of it. */
const MAX_VALUE = 160;

/** The ladder as a tree: what was looked at, in order, and what came of it. Ends with a newline. */
export function renderTree(explanation: Explanation): string {
  return drawTree({ text: explanation.decision.source, children: ladder(explanation) });
}

/** One Pod: where it can land, the ladder of each image, and the patch. `title` says whose Pod it is. Ends with a newline. */
export function renderPod(title: string, { nodes, containers, patch }: PodExplanation): string {
  const images = containers.map((c) => ({ text: `${c.decision.container}: ${c.decision.source}`, children: ladder(c) }));
  return drawTree({
    text: title,
    children: [nodesBranch(nodes), ...images, patchBranch(patch)],
  });
}

/** What was assumed, one line each, and why there is no verdict; empty where there is nothing to say. */
export function renderNotes(
  notes: readonly string[],
  { unseen, unsure }: Pick<PodExplanation, 'unseen' | 'unsure'> = {},
): string {
  const all = [
    ...notes,
    ...(unseen === undefined ? [] : [`${unseen}, so nothing happens; this is what would`]),
    ...(unsure === undefined ? [] : [`${unsure}; this is what happens if it is listed`]),
  ];
  return all.map((note) => `! ${note}\n`).join('');
}

function ladder({ decision, steps, already }: Explanation): Branch[] {
  const { outcome, image, message } = decision;
  // The last step says why already; what comes from elsewhere is told once more.
  const known = message === undefined || steps.some(({ detail }) => message === detail || message.endsWith(`: ${detail}`));
  const end = { text: `=> ${result(outcome, image, already)}`, children: known ? [] : [leaf(message)] };
  return [...grouped(steps), end];
}

function result(outcome: Explanation['decision']['outcome'], image: string, already: boolean): string {
  if (!changesImage(outcome)) return `${outcome}: the image is left alone`;
  return already ? `${outcome}: the Pod has ${image} already` : `${outcome}: the Pod gets ${image}`;
}

/** Steps about one candidate hang below it. */
function grouped(steps: readonly Step[]): Branch[] {
  const width = Math.max(...steps.map((step) => step.step.length));
  const branches: Branch[] = [];
  let open: { candidate: string; branch: Branch } | undefined;
  for (const { step, candidate, detail, verdict, ms } of steps) {
    const line = leaf(`${MARK[verdict]} ${step.padEnd(width)}  ${detail}${duration(ms)}`);
    if (candidate === undefined) {
      branches.push(line);
      open = undefined;
      continue;
    }
    if (open?.candidate !== candidate) {
      open = { candidate, branch: { text: candidate, children: [] } };
      branches.push(open.branch);
    }
    open.branch.children.push(line);
  }
  return branches;
}

function duration(ms: number | undefined): string {
  if (ms === undefined) return '';
  return ms < 1 ? ' [< 1 ms]' : ` [${Math.round(ms)} ms]`;
}

function nodesBranch({ platforms, obstacles }: NodesSeen): Branch {
  const children = Object.entries(obstacles).map(([format, text]) => leaf(`✗ ${format}  ${text}`));
  return { text: `nodes: ${platforms === undefined ? 'platforms not known' : platforms.join(', ')}`, children };
}

function patchBranch(patch: readonly PatchOp[]): Branch {
  if (patch.length === 0) return leaf('patch: none, the Pod stays as it is');
  const ops = patch.map((op) => leaf(`${op.op} ${op.path}${op.op === 'remove' ? '' : ` ${valueText(op.value)}`}`));
  return { text: `patch: ${patch.length} operation${patch.length === 1 ? '' : 's'}`, children: ops };
}

function valueText(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE ? text : `(${text.length} characters)`;
}
