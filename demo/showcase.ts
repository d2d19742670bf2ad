import { ANNOTATION } from '../src/api/names.js';
import type { Decision } from '../src/api/outcomes.js';
import { isRunning } from './gang-times.js';
import type { Seen } from './gang-times.js';
import { estargzPolicy, plainPod } from './objects.js';
import { NAMESPACE, STEP_DEADLINE_MS } from './settings.js';
import { brief } from './stage.js';
import type { Stage } from './stage.js';

/** What the webhook does for Pods that nobody prewarmed: one is given a variant, one is left alone and says why. */
export async function showWebhook(stage: Stage): Promise<void> {
  const { client, narrator, images, kubectl } = stage;
  await client.apply(estargzPolicy(images.policyPattern));

  const rewritten = await startPod(stage, 'with-variant', images.accelerated, (d) => d.outcome === 'accelerated');
  if (rewritten.image === images.accelerated)
    throw new Error(`the decision says accelerated, but the image is still ${rewritten.image}`);
  narrator.step(
    'pod-rewritten-to-estargz',
    `a Pod with ${short(images.accelerated)} runs its ${rewritten.decision.format} variant ${rewritten.image.slice(-12)}: it records this source`,
  );

  const alone = await startPod(stage, 'without-variant', images.plain, (d) => d.outcome === 'variant-missing');
  if (alone.image !== images.plain)
    throw new Error(`the decision says ${alone.decision.outcome}, but the image became ${alone.image}`);
  narrator.step(
    'pod-left-alone-with-reason',
    `a Pod with ${short(images.plain)} is left alone: ${alone.decision.outcome}${alone.decision.message === undefined ? '' : ` (${alone.decision.message})`}`,
  );

  for (const name of ['with-variant', 'without-variant']) {
    const jsonpath = `jsonpath={.metadata.annotations.${ANNOTATION.decisions.replaceAll('.', '\\.')}}`;
    const { command, output } = await kubectl.show(['get', 'pod', name, '-n', NAMESPACE, '-o', jsonpath]);
    narrator.output(command, output);
    await client.delete('v1/Pod', `${NAMESPACE}/${name}`);
  }
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
