import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { ANNOTATION, API_VERSION, LABEL } from '../../src/api/names.js';
import type { Decision } from '../../src/api/outcomes.js';
import type { VariantRule } from '../../src/api/kinds/acceleration-policy.js';
import type { Draft, Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import { run } from '../cluster/exec.js';
import type { Harbinger } from '../cluster/harbinger.js';
import type { RealNode, Snapshotter } from '../cluster/nodes/index.js';
import { ensurePackages } from '../cluster/packages/index.js';
import { repoRoot } from '../cluster/paths.js';
import { notYet, until } from '../cluster/until.js';
import { incompressible, payloadImage, push, type Image } from '../../tools/oci-image/index.js';
import { startCtrRemote, type CtrRemote } from './converters/ctr-remote.js';

export const NAMESPACE = 'lazy';
/** Whoever runs a Nydus snapshotter labels its nodes so; the configuration declares what the label means. */
export const NYDUS_LABEL = { 'example.com/snapshotter': 'nydus' };

const MIB = 1 << 20;
/** Incompressible bytes of each image, in files of which a container reads one. */
export const SIZE = 24 * MIB;
const FILES = 48;
export const FILE_BYTES = SIZE / FILES;
/** What a node that reads one file may fetch: the base layer, tables of contents, chunks, and the API server's chatter. */
export const LAZY_BYTES = 4 * MIB;
export const SLEEPER = ['/bin/sh', '-c', "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"];

/** A cluster with one node of each kind, Harbinger, and the converters. */
export interface Ground {
  cluster: Cluster;
  harbinger: Harbinger;
  ctrRemote: CtrRemote;
  stop(): Promise<void>;
}

/** Starts the ground. `rangeless` is the port at which a test has a registry in front that knows no Range requests. */
export async function startGround({ rangeless }: { rangeless: number }): Promise<Ground> {
  const packages = await ensurePackages((line) => console.log(line), { converters: true });
  if (!packages.ok) throw new Error(`lazy nodes cannot run here: ${packages.why}`);
  const cluster = await Cluster.start({
    name: 'formats',
    nodes: { real: { count: KINDS.length, snapshotters: KINDS } },
    hostRegistryPorts: [rangeless],
    say: () => undefined,
  });
  try {
    const plain = (host: string): object => ({ host, plainHTTP: true, allowLocalAddresses: true });
    await cluster.client.patch('v1/Node', node(cluster, 'nydus').name, { metadata: { labels: NYDUS_LABEL } });
    await cluster.client.apply({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: NAMESPACE, labels: { [LABEL.accelerate]: 'enabled' } },
    });
    const [harbinger, ctrRemote] = await Promise.all([
      cluster.installHarbinger({
        config: {
          registries: [plain(cluster.registry.host), plain(`${cluster.network?.hostAddress ?? ''}:${rangeless}`)],
          capabilities: [{ format: 'nydus', nodeSelector: NYDUS_LABEL }],
        },
      }),
      startCtrRemote({ spawn: cluster.spawn, bin: join(cluster.runDir, 'bin'), dir: join(cluster.runDir, 'convert') }),
    ]);
    return { cluster, harbinger, ctrRemote, stop: () => cluster.stop() };
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

const KINDS: readonly Snapshotter[] = ['overlayfs', 'stargz', 'nydus'];

export function node(cluster: Cluster, kind: Snapshotter): RealNode {
  const found = cluster.realNodes.find((n) => n.snapshotter === kind);
  if (!found) throw new Error(`there is no ${kind} node`);
  return found;
}

/** Pushes a plain image `host/repository:v1` whose bytes no other image has. */
export async function pushSource(cluster: Cluster, repository: string): Promise<{ image: string; built: Image }> {
  const { host } = cluster.registry;
  const built = await payloadImage({ seed: repository, bytes: SIZE, files: FILES, cmd: SLEEPER });
  await push(built, { host, repository, tags: ['v1'] });
  return { image: `${host}/${repository}:v1`, built };
}

/** Offers variants of the repository of an image. */
export async function offer(cluster: Cluster, image: string, variants: VariantRule[]): Promise<void> {
  const repository = image.replace(/:[^:/]*$/, '');
  await cluster.client.apply({
    apiVersion: API_VERSION,
    kind: 'AccelerationPolicy',
    metadata: { name: repository.replace(/[^a-z0-9]+/g, '-') },
    spec: { match: { images: [repository] }, variants },
  });
}

/** Runs Harbinger's command line as a person with the cluster's kubeconfig does. */
export function harbingerCli(cluster: Cluster, ...args: string[]): Promise<string> {
  const config = join(cluster.runDir, 'harbinger.yaml');
  return run(process.execPath, [join(repoRoot(), '.out/harbinger.mjs'), ...args, '--config', config], {
    env: { KUBECONFIG: cluster.kubeconfig, NODE_OPTIONS: '' },
  });
}

export interface Started {
  pod: Raw;
  /** The image that the API server kept. */
  image: string;
  decision: Decision;
}

/** A Pod of a plain image that reads one file of it, names its digest on its output and then sleeps. */
const reader = (name: string, image: string, nodeSelector: Record<string, string>): Draft => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: NAMESPACE },
  spec: {
    nodeSelector,
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    containers: [{ name: 'main', image, command: ['sh', '-c', 'sha256sum /payload/0/7; sleep 86400'] }],
  },
});

/**
 * Creates the Pod until the webhook decides as expected: a policy or a class of nodes that was made a moment ago may not have reached it.
 */
export async function create(
  cluster: Cluster,
  { name, image, select = {}, expected }: { name: string; image: string; select?: Record<string, string>; expected: string },
): Promise<Started> {
  const key = `${NAMESPACE}/${name}`;
  return until(
    `a Pod of ${image} to be decided as ${expected}`,
    async () => {
      const pod = await cluster.client.create(reader(name, image, select));
      const text = pod.metadata.annotations?.[ANNOTATION.decisions];
      const decision = (JSON.parse(text ?? '[]') as Decision[])[0];
      if (decision?.outcome === expected) return { pod, image: String(pod['spec'].containers[0].image), decision };
      await cluster.client.delete('v1/Pod', key, { gracePeriodSeconds: 0 });
      await cluster.client.untilGone('v1/Pod', key);
      return notYet(decision ?? 'no decision was written');
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
}

export interface Ran {
  /** What the node received from before the Pod was made until its container had read its file. */
  bytes: number;
  /** File systems of the lazy snapshotter that are new. */
  fuse: number;
  seconds: number;
}

/** Runs `create` and then waits until the container has read the file that was made; the bytes of its node are counted. */
export async function runOn(
  ground: Ground,
  on: RealNode,
  options: { name: string; image: string; select?: Record<string, string>; seed: string; expected?: string },
): Promise<Started & Ran> {
  const { cluster } = ground;
  const select = options.select ?? { 'kubernetes.io/hostname': on.name };
  const [bytes, fuse] = [await on.bytesReceived(), (await on.fuseMounts()).length];
  const began = performance.now();
  const started = await create(cluster, { expected: 'accelerated', ...options, select });
  await cluster.client.watchUntil('v1/Pod', `${NAMESPACE}/${options.name}`, (p) => p['status']?.phase === 'Running', 60_000);
  const line = `${digestOfFile(options.seed)}  /payload/0/7`;
  await until(`the container of ${options.name} to read its file`, async () => {
    const log = await cluster.kubectl(['logs', '-n', NAMESPACE, options.name]);
    return log.trim() === line || notYet(log);
  });
  return {
    ...started,
    bytes: (await on.bytesReceived()) - bytes,
    fuse: (await on.fuseMounts()).length - fuse,
    seconds: Number(((performance.now() - began) / 1000).toFixed(2)),
  };
}

/** What sha256sum prints of the file that containers read, by the seed of its image. */
function digestOfFile(seed: string): string {
  const hash = createHash('sha256');
  for (const chunk of incompressible(`${seed}/0/7`, FILE_BYTES).chunks()) hash.update(chunk);
  return hash.digest('hex');
}

export async function removePod(cluster: Cluster, name: string): Promise<void> {
  await cluster.client.delete('v1/Pod', `${NAMESPACE}/${name}`, { gracePeriodSeconds: 0 });
  await cluster.client.untilGone('v1/Pod', `${NAMESPACE}/${name}`);
}
