import { request } from 'undici';
import { buildIndex, estargzVariant, payloadImage, push } from '../../../tools/oci-image/index.js';
import type { Image } from '../../../tools/oci-image/index.js';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import type { Draft, Raw } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import type { Content } from '../../fixtures/workloads/index.js';
import { NS, namespace } from '../webhook/ground.js';

/** A namespace that the webhook does not see: Pods there are what they are without Harbinger. */
export const PLAIN = 'plain';

/** Registries of the world stand side by side below the one of the tests, so that a name keeps its host, path and tag. */
export const imageAt = (host: string, image: string): string => `${host}/${image}`;

/** The two namespaces that each Pod is admitted to. */
export const bothNamespaces = (): Draft[] => [namespace(NS), { apiVersion: 'v1', kind: 'Namespace', metadata: { name: PLAIN } }];

/** Sends a Pod in a dry run, which runs all of admission and stores nothing; returns it as it would be stored. */
export async function admit(cluster: Cluster, pod: Draft, ns: string): Promise<Raw> {
  return (await cluster.client.request('POST', `/api/v1/namespaces/${ns}/pods?dryRun=All`, pod)) as Raw;
}

export interface Place {
  /** JSON pointer. */
  path: string;
  container: string;
  image: string;
}

/** Where images stand in a Pod, in the order in which they are decided. */
export function imagesOf(pod: Raw | Draft): Place[] {
  const spec = pod['spec'] as Record<string, { name: string; image: string }[] | undefined>;
  return ['initContainers', 'containers'].flatMap((field) =>
    (spec[field] ?? []).map(({ name, image }, i) => ({ path: `/spec/${field}/${i}/image`, container: name, image })),
  );
}

/**
 * A Pod without what Harbinger may change and without what differs from one creation to the next: generated names, times and token volumes. Two
 * Pods that are equal so differ by images, decisions and label alone.
 */
export function remainder(pod: Raw): unknown {
  const generated = pod.metadata['generateName'] !== undefined;
  const metadata = without(pod.metadata, [
    'namespace',
    'uid',
    'creationTimestamp',
    'resourceVersion',
    'managedFields',
    ...(generated ? ['name'] : []),
  ]);
  const annotations = without(pod.metadata.annotations ?? {}, [ANNOTATION.decisions]);
  const labels = without(pod.metadata.labels ?? {}, [LABEL.accelerated]);
  const spec = JSON.parse(JSON.stringify(pod['spec']).replace(/kube-api-access-[a-z0-9]{5}/g, 'token')) as Record<
    string,
    object[]
  >;
  for (const field of ['initContainers', 'containers']) {
    const containers = spec[field];
    if (containers !== undefined) spec[field] = containers.map((container) => without(container, ['image']));
  }
  // Two requests may fall into two seconds.
  const status = JSON.parse(
    JSON.stringify(pod['status'] ?? {}).replace(/"lastTransitionTime":"[^"]*"/g, '"lastTransitionTime":""'),
  ) as unknown;
  return { ...pod, metadata: { ...metadata, annotations, labels }, spec, status };
}

function without(object: object, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
}

/** What was pushed for one image. */
export interface Pushed {
  sourceDigest: string;
  /** Where there is a variant. */
  variantDigest?: string;
}

const ARM = { os: 'linux', architecture: 'arm64' };
const AMD = { os: 'linux', architecture: 'amd64' };

/** Pushes what a registry shall have of an image; nothing for what is absent. `image` has the host of the registry in front. */
export async function pushContent(image: string, content: Content): Promise<Pushed | undefined> {
  const [host = '', ...rest] = image.split('/');
  const [repository = '', tag = 'latest'] = rest.join('/').split(':');
  const put = (what: Parameters<typeof push>[0], as: string): Promise<string> => push(what, { host, repository, tags: [as] });
  const platform = content === 'with variant for arm64' ? ARM : AMD;
  const options = { seed: image, bytes: 2_000, files: 1, bare: true, platform };
  if (content === 'absent' || content === 'no reference') return undefined;
  if (content === 'schema 1') return putSchema1(host, repository, tag);
  if (content.includes('platforms') || content.includes('amd64'))
    return pushPlatforms({ image, put, tag, both: content.includes('both') });
  const source = await payloadImage(options);
  await put(source, tag);
  if (content === 'without variant') return { sourceDigest: source.digest };
  const variant = await estargzVariant(source, options);
  await put(variant, `${tag}-esgz`);
  if (content !== 'with variant of an older image') return { sourceDigest: source.digest, variantDigest: variant.digest };
  const newer = await payloadImage({ ...options, seed: `${image} again` });
  await put(newer, tag);
  return { sourceDigest: newer.digest };
}

interface Platforms {
  image: string;
  put: (what: Parameters<typeof push>[0], as: string) => Promise<string>;
  tag: string;
  both: boolean;
}

async function pushPlatforms({ image, put, tag, both }: Platforms): Promise<Pushed> {
  const make = async (platform: typeof ARM): Promise<[Image, Image]> => {
    const options = { seed: `${image} ${platform.architecture}`, bytes: 2_000, files: 1, bare: true, platform };
    const source = await payloadImage(options);
    return [source, await estargzVariant(source, options)];
  };
  const [[amd, amdVariant], [arm, armVariant]] = [await make(AMD), await make(ARM)];
  const source = buildIndex([amd, arm]);
  await put(source, tag);
  const variant = both ? buildIndex([amdVariant, armVariant]) : amdVariant;
  await put(variant, `${tag}-esgz`);
  return { sourceDigest: source.digest, ...(both ? { variantDigest: variant.digest } : {}) };
}

async function putSchema1(host: string, repository: string, tag: string): Promise<undefined> {
  const body = JSON.stringify({
    schemaVersion: 1,
    name: repository,
    tag,
    architecture: 'amd64',
    fsLayers: [],
    history: [],
    signatures: [],
  });
  const headers = { 'content-type': 'application/vnd.docker.distribution.manifest.v1+prettyjws' };
  const response = await request(`http://${host}/v2/${repository}/manifests/${tag}`, { method: 'PUT', headers, body });
  const text = await response.body.text();
  if (response.statusCode >= 300)
    throw new Error(`registry ${host} did not take a manifest of schema 1: ${response.statusCode} ${text}`);
  return undefined;
}
