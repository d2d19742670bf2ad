import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** `make try`: a first look that needs nothing but Node. Runs the real executable on recorded registry answers. */

const BUNDLE = '.out/harbinger.mjs';
const POLICY = 'examples/policy.yaml';
const ANSWERS = 'examples/registry';

interface Scene {
  image: string;
  outcome: string;
  say: string;
}

const SCENES: readonly Scene[] = [
  {
    image: 'registry.example.com/ml/train:2.3',
    outcome: 'accelerated',
    say: 'There is an eStargz variant (tag 2.3-esgz), and it records that it was made from exactly this image. Nodes may start it before all of it is there.',
  },
  {
    image: 'registry.example.com/ml/train:2.4',
    outcome: 'variant-stale',
    say: 'Somebody pushed 2.4 again after the variant was made. Using the variant would run yesterday’s code, so the Pod keeps its image.',
  },
  {
    image: 'registry.example.com/ml/eval:1.8',
    outcome: 'freshness-unknown',
    say: 'This variant does not say what it was made from. It may well be right; Harbinger does not guess.',
  },
  {
    image: 'busybox',
    outcome: 'no-policy',
    say: 'No policy speaks of this image, so no registry is even asked.',
  },
  {
    image: 'registry.example.com/ML/train:2.3',
    outcome: 'unparsable',
    say: 'Whatever stands in a Pod, the Pod is admitted as it is: Harbinger never refuses one.',
  },
];

function wrap(text: string, width = 100): string {
  return text.replace(new RegExp(`(.{1,${width}})(\\s+|$)`, 'g'), '$1\n').trimEnd();
}

async function explain(image: string, output: 'tree' | 'json'): Promise<string> {
  const args = ['explain', image, '-p', POLICY, '--offline', ANSWERS, '-o', output];
  return (await promisify(execFile)(process.execPath, [BUNDLE, ...args])).stdout;
}

/** Shows each scene; fails if one does not end as it is told here, so that the narration cannot drift from the program. */
async function main(): Promise<void> {
  console.log(
    wrap(
      `\nHarbinger has images on nodes before Pods need them, and replaces an image by its accelerated variant where that is proven to be the same program. This shows the second part: ${SCENES.length} images, the policy in ${POLICY}, and answers of a registry recorded in ${ANSWERS}/. Nothing is downloaded.`,
    ),
  );
  for (const [i, { image, outcome, say }] of SCENES.entries()) {
    console.log(`\n${i + 1}. $ node ${BUNDLE} explain ${image} -p ${POLICY} --offline ${ANSWERS}\n`);
    process.stdout.write((await explain(image, 'tree')).replace(/^/gm, '   ').trimEnd());
    console.log(`\n\n${wrap(say).replace(/^/gm, '   ')}`);
    const { decision } = JSON.parse(await explain(image, 'json')) as { decision: { outcome: string } };
    if (decision.outcome !== outcome)
      throw new Error(`${image} ended as ${decision.outcome}, the example is made for ${outcome}`);
  }
  console.log(
    `\nTry your own: node ${BUNDLE} explain IMAGE -p ${POLICY}   (asks the registry of IMAGE)\nThe other part, images on nodes before a queued job starts, on a real control plane: make demo\n`,
  );
}

await main();
