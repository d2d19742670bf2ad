import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** `make try`: a first look that needs nothing but Node. Runs the real executable on recorded registry answers. */

const BUNDLE = '.out/harbinger.mjs';
const POLICY = 'examples/policy.yaml';
const SERVING = 'examples/policy-serving.yaml';
const ANSWERS = 'examples/registry';
/** A cluster of three nodes, one of which cannot run Nydus. */
const NODES = ['--nodes', 'examples/nodes.yaml', '--config', 'examples/config.yaml'];

interface Scene {
  /** What stands behind `explain`. */
  args: readonly string[];
  outcome: string;
  say: string;
}

const SCENES: readonly Scene[] = [
  {
    args: ['registry.example.com/ml/train:2.3', '-p', POLICY],
    outcome: 'accelerated',
    say: 'There is an eStargz variant (tag 2.3-esgz), and it records that it was made from exactly this image. Nodes may start it before all of it is there.',
  },
  {
    args: ['registry.example.com/ml/train:2.4', '-p', POLICY],
    outcome: 'variant-stale',
    say: 'Somebody pushed 2.4 again after the variant was made. Using the variant would run yesterday’s code, so the Pod keeps its image.',
  },
  {
    args: ['registry.example.com/ml/eval:1.8', '-p', POLICY],
    outcome: 'freshness-unknown',
    say: 'This variant does not say what it was made from. It may well be right; Harbinger does not guess. Whoever made it can say so: harbinger record.',
  },
  {
    args: ['registry.example.com/serve/embed:7', '-p', SERVING],
    outcome: 'accelerated',
    say: 'The next policy prefers Nydus and takes zstd:chunked. That variant carries no record, but it has the very config of its source, which lists what its layers unpack to: proof enough.',
  },
  {
    args: ['registry.example.com/serve/llm:3', '-p', SERVING, ...NODES],
    outcome: 'node-incapable',
    say: 'The Nydus variant is right, but a node on which the Pod could land cannot run it, and the Pod would fail there. So it keeps its image.',
  },
  {
    args: ['--pod', 'examples/pod-serving.yaml', '-p', SERVING, ...NODES],
    outcome: 'accelerated',
    say: 'The same image in a Pod that demands the label of nodes which run Nydus. Now no node is in doubt, not even one that joins later; below is the patch that the API server would be given.',
  },
  {
    args: ['registry.example.com/ML/train:2.3', '-p', POLICY],
    outcome: 'unparsable',
    say: 'Whatever stands in a Pod, the Pod is admitted as it is: Harbinger never refuses one.',
  },
];

function wrap(text: string, width = 100): string {
  return text.replace(new RegExp(`(.{1,${width}})(\\s+|$)`, 'g'), '$1\n').trimEnd();
}

async function explain(scene: readonly string[]): Promise<string> {
  const args = ['explain', ...scene, '--offline', ANSWERS];
  return (await promisify(execFile)(process.execPath, [BUNDLE, ...args])).stdout;
}

/** Shows each scene; fails if one does not end as it is told here, so that the narration cannot drift from the program. */
async function main(): Promise<void> {
  console.log(
    wrap(
      `\nHarbinger has images on nodes before Pods need them, and replaces an image by its accelerated variant where that is proven to be the same program and to run where the Pod can land. This shows the second part: ${SCENES.length} questions, the policies in examples/, and answers of a registry recorded in ${ANSWERS}/. Nothing is downloaded.`,
    ),
  );
  // Each prints what it is told, so all can run at once.
  const told = await Promise.all(SCENES.map(({ args }) => explain(args)));
  for (const [i, { args, outcome, say }] of SCENES.entries()) {
    const tree = told[i] ?? '';
    console.log(`\n${i + 1}. $ node ${BUNDLE} explain ${args.join(' ')} --offline ${ANSWERS}\n`);
    process.stdout.write(tree.replace(/^/gm, '   ').trimEnd());
    console.log(`\n\n${wrap(say).replace(/^/gm, '   ')}`);
    const found = /=> ([a-z-]+):/.exec(tree)?.[1];
    if (found !== outcome) throw new Error(`${args.join(' ')} ended as ${String(found)}, the example is made for ${outcome}`);
  }
  console.log(
    `\nTry your own: node ${BUNDLE} explain IMAGE -p ${POLICY}   (asks the registry of IMAGE)\nA folder:     node ${BUNDLE} simulate -f examples -p examples --offline ${ANSWERS}\nThe other part, images on nodes before a queued job starts, on a real control plane: make demo\n`,
  );
}

await main();
