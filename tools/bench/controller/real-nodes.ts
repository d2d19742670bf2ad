import { Cluster } from '../../../test/cluster/cluster.js';
import type { HarbingerProcess } from '../../../test/cluster/harbinger.js';
import type { Draft, Raw } from '../../../test/cluster/client.js';
import { isTrue } from '../../../test/cluster/client.js';
import { payloadImage, pullerImage, push } from '../../oci-image/index.js';
import type { Samples } from '../controller.js';
import { PREWARM, SYSTEM } from './gangs.js';

const NODES = 3;
const REPEATS = 3;
const IMAGE_BYTES = 24_000_000;
/** Slow enough for a restart in the middle, fast enough for a bench. */
const RATE_MBIT = 80;
const TENANTS = ['team-a', 'team-b'];

/** What real kubelets fetch over a slow link for two tenants with one image, with the controller restarted in mid-pull. */
export async function realNodes(samples: Samples, say: (line: string) => void): Promise<void> {
  const cluster = await Cluster.start({
    name: 'bench-link',
    nodes: { real: { count: NODES, root: 'tmpfs', tmpfsMiB: 512 } },
    registry: { rateMbit: RATE_MBIT },
    say,
  });
  try {
    await cluster.client.apply(TENANTS.map((name): Draft => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
    const { host } = cluster.registry;
    const program = await pullerImage();
    await push(program, { host, repository: 'harbinger/puller', tags: ['bench'] });
    const { controllers } = await cluster.installHarbinger({
      webhookReplicas: 0,
      pullerImage: `${host}/harbinger/puller@${program.digest}`,
    });
    const [controller] = controllers;
    if (controller === undefined) throw new Error('no controller was started');
    // Brings the puller program to all nodes, which is no part of what is measured.
    await warm(cluster, undefined, 'first');
    for (let i = 1; i <= REPEATS; i++) {
      say(`real nodes: ${i} of ${REPEATS}`);
      const { ratio, doubles } = await warm(cluster, controller, `round-${i}`);
      samples.note('wire_bytes_vs_need', 'x', ratio);
      samples.note('double_pulls', 'pulls', doubles);
    }
  } finally {
    await cluster.stop();
  }
}

/** @param controller is restarted while nodes pull; undefined: it is not */
async function warm(
  cluster: Cluster,
  controller: HarbingerProcess | undefined,
  name: string,
): Promise<{ ratio: number; doubles: number }> {
  const image = await payloadImage({ seed: name, bytes: controller === undefined ? 1_000 : IMAGE_BYTES, files: 1, bare: true });
  const { host } = cluster.registry;
  await push(image, { host, repository: name, tags: ['v1'] });
  const before = await cluster.registry.bytesSent();
  await Promise.all(TENANTS.map((namespace) => cluster.client.create(prewarm(namespace, name, `${host}/${name}:v1`))));
  if (controller !== undefined) {
    await cluster.client.watchUntil(PREWARM, `team-a/${name}`, (p) => Number(p['status']?.nodes?.pulling) > 0, 60_000);
    await controller.restart('SIGTERM');
  }
  for (const namespace of TENANTS)
    await cluster.client.watchUntil(PREWARM, `${namespace}/${name}`, (p) => isTrue(p, 'Ready'), 180_000);
  const need = NODES * image.sizeBytes;
  const ratio = ((await cluster.registry.bytesSent()) - before) / need;
  return { ratio, doubles: (await pullsOf(cluster, `${host}/${name}@${image.digest}`)) - NODES };
}

/** Pulls of an image that kubelets began, by their own Events. */
async function pullsOf(cluster: Cluster, resolved: string): Promise<number> {
  const events = await cluster.client.list('v1/Event', { namespace: SYSTEM, fieldSelector: 'reason=Pulling' });
  const ours = events.filter((e: Raw) => String(e['message']).includes(resolved));
  return ours.reduce((sum, e) => sum + Math.max(1, Number(e['count'] ?? 1)), 0);
}

function prewarm(namespace: string, name: string, reference: string): Draft {
  return {
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace },
    spec: { targets: [{ name: 'main', images: [{ reference }], nodes: { selector: {} } }] },
  };
}
