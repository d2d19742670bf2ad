import type { Format } from '../src/api/kinds/acceleration-policy.js';
import { ANNOTATION } from '../src/api/names.js';
import type { Decision } from '../src/api/outcomes.js';
import { isRunning } from './gang-times.js';
import type { Seen } from './gang-times.js';
import { plainPod, variantsPolicy } from './objects.js';
import type { StepName } from './report.js';
import { NAMESPACE, STEP_DEADLINE_MS } from './settings.js';
import { brief } from './stage.js';
import type { Stage } from './stage.js';

/** What the webhook does for Pods that nobody prewarmed: two are given a variant of another format each, one is left alone and says why. */
export async function showWebhook(stage: Stage): Promise<void> {
  const { client, images } = stage;
  await client.apply(variantsPolicy(images.policyPattern));
  await showVariant(stage, { name: 'with-estargz', image: images.estargz, format: 'estargz', step: 'pod-rewritten-to-estargz' });
  await showVariant(stage, { name: 'with-zstd', image: images.zstd, format: 'zstd', step: 'pod-rewritten-to-zstd' });

  const stale = await startPod(stage, 'with-stale-variant', images.rebuilt, (d) => d.outcome === 'variant-stale');
  if (stale.image !== images.rebuilt)
    throw new Error(`the decision says ${stale.decision.outcome}, but the image became ${stale.image}`);
  stage.narrator.step(
    'pod-left-alone-with-reason',
    `a Pod with ${short(images.rebuilt)} is left alone: ${stale.decision.outcome}${stale.decision.message === undefined ? '' : ` (${stale.decision.message})`}`,
  );
  await showDecision(stage, 'with-stale-variant');
}

interface Shown {
  name: string;
  image: string;
  format: Format;
  step: StepName;
}

async function showVariant(stage: Stage, { name, image, format, step }: Shown): Promise<void> {
  const started = await startPod(stage, name, image, (d) => d.outcome === 'accelerated' && d.format === format);
  if (started.image === image) throw new Error(`the decision says accelerated, but the image is still ${started.image}`);
  const why = started.decision.message === undefined ? '' : `: ${started.decision.message}`;
  stage.narrator.step(step, `a Pod with ${short(image)} runs ${started.image.slice(-12)}${why}`);
  await showDecision(stage, name);
}

async function showDecision({ kubectl, narrator, client }: Stage, name: string): Promise<void> {
  const jsonpath = `jsonpath={.metadata.annotations.${ANNOTATION.decisions.replaceAll('.', '\\.')}}`;
  const { command, output } = await kubectl.show(['get', 'pod', name, '-n', NAMESPACE, '-o', jsonpath]);
  narrator.output(command, output);
  await client.delete('v1/Pod', `${NAMESPACE}/${name}`);
}

interface Started {
  image: string;
  decision: Decision;
}

/**
 * Creates a Pod and waits until it runs. The first try may meet the webhook before it has seen the new policy, so a Pod with another
 * decision than expected is made again until the deadline.
 */
async function startPod(stage: Stage, name: string, image: string, expected: (decision: Decision) => boolean): Promise<Started> {
  const deadline = Date.now() + STEP_DEADLINE_MS;
  for (;;) {
    const pod = (await stage.client.create(plainPod(name, image))) as Seen;
    const decision = decisionOf(pod);
    if (decision !== undefined && expected(decision)) break;
    if (Date.now() > deadline)
      throw new Error(
        `Pod ${name} with ${image}: decision was ${JSON.stringify(decision) ?? 'not written, so the webhook was not called'}`,
      );
    await stage.client.delete('v1/Pod', `${NAMESPACE}/${name}`, { gracePeriodSeconds: 0 });
    await stage.client.untilGone('v1/Pod', `${NAMESPACE}/${name}`);
  }
  const running = await stage.observer.wait({
    what: `Pod ${name} to run`,
    probe: () => (stage.observer.list('pods') as Seen[]).find((p) => p.metadata.name === name && isRunning(p)),
    timeoutMs: STEP_DEADLINE_MS,
    last: () => brief(stage.observer.get('pods', NAMESPACE, name)),
  });
  return { image: running.spec?.containers?.[0]?.image ?? '', decision: decisionOf(running) as Decision };
}

function decisionOf(pod: Seen): Decision | undefined {
  const text = pod.metadata.annotations?.[ANNOTATION.decisions];
  if (text === undefined) return undefined;
  const parsed = JSON.parse(text) as Decision[];
  return parsed[0];
}

/** An image without its registry. */
function short(image: string): string {
  return image.slice(image.indexOf('/') + 1);
}
