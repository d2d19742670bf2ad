import { changesImage } from '../api/outcomes.js';
import type { Step } from '../images/variant.js';
import type { Explanation } from './explain.js';

const MARK: Readonly<Record<Step['verdict'], string>> = { yes: '✓', no: '✗', unknown: '?', skip: '-' };

interface Node {
  text: string;
  children: Node[];
}

/** The ladder as a tree: what was looked at, in order, and what came of it. Ends with a newline. */
export function renderTree({ decision, steps }: Explanation): string {
  const { source, outcome, image, message } = decision;
  const result = changesImage(outcome) ? `${outcome}: the Pod gets ${image}` : `${outcome}: the image is left alone`;
  // The last step says why already; what comes from elsewhere is told once more.
  const known = message === undefined || steps.some(({ detail }) => message === detail || message.endsWith(`: ${detail}`));
  const root: Node = {
    text: source,
    children: [...grouped(steps), { text: `=> ${result}`, children: known ? [] : [{ text: message, children: [] }] }],
  };
  return `${lines(root).join('\n')}\n`;
}

/** Steps about one candidate hang below it. */
function grouped(steps: readonly Step[]): Node[] {
  const width = Math.max(...steps.map((step) => step.step.length));
  const nodes: Node[] = [];
  let open: { candidate: string; node: Node } | undefined;
  for (const { step, candidate, detail, verdict } of steps) {
    const leaf = { text: `${MARK[verdict]} ${step.padEnd(width)}  ${detail}`, children: [] };
    if (candidate === undefined) nodes.push(leaf);
    else {
      if (open?.candidate !== candidate) {
        open = { candidate, node: { text: candidate, children: [] } };
        nodes.push(open.node);
      }
      open.node.children.push(leaf);
    }
  }
  return nodes;
}

function lines({ text, children }: Node): string[] {
  const below = children.flatMap((child, i) => {
    const last = i === children.length - 1;
    return lines(child).map((line, n) => `${n > 0 ? (last ? '   ' : '│  ') : last ? '└─ ' : '├─ '}${line}`);
  });
  return [text, ...below];
}
