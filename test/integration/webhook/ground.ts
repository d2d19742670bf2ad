import { estargzVariant, payloadImage, push } from '../../../tools/oci-image/index.js';
import type { Draft, Raw } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';

export const NS = 'team';
export const DECISIONS = 'harbinger.dev/decisions';
export const ACCELERATED = 'harbinger.dev/accelerated';
export const POLICY = 'harbinger.dev/v1alpha1/AccelerationPolicy';

/** The Namespace that the webhook serves. */
export const namespace = (name = NS, annotations: Record<string, string> = {}): Draft => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { 'harbinger.dev/accelerate': 'enabled' }, annotations },
});

export const policy = (name: string, spec: Record<string, unknown> = {}): Draft => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'AccelerationPolicy',
  metadata: { name },
  spec: { variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }], ...spec },
});

export interface PodParts {
  namespace?: string;
  metadata?: Record<string, unknown>;
  spec?: Record<string, unknown>;
  container?: Record<string, unknown>;
}

let serial = 0;
/** A Pod with one container `app`. Nothing schedules it: these tests look at what was admitted. */
export function pod(image: string, parts: PodParts = {}): Draft {
  const { namespace: ns = NS, metadata = {}, spec = {}, container = {} } = parts;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `pod-${++serial}`, namespace: ns, ...metadata },
    spec: { schedulerName: 'nobody', containers: [{ name: 'app', image, ...container }], ...spec },
  };
}

export const imageOf = (object: Raw, i = 0): string => object['spec'].containers[i].image as string;

export interface Decision {
  container: string;
  source: string;
  outcome: string;
  image: string;
  message?: string;
}

export function decisionsOf(object: Raw): Decision[] {
  return JSON.parse(object.metadata.annotations?.[DECISIONS] ?? '[]') as Decision[];
}

/** Waits until the process decides by what was written a moment ago: the outcome of a probe Pod in a dry run is `want`. */
export async function untilOutcome(cluster: Cluster, image: string, want: string, ns = NS): Promise<void> {
  await until(`Pods of ${image} to be decided ${want}`, async () => {
    const probe = pod(image, { namespace: ns });
    const admitted = (await cluster.client.request('POST', `/api/v1/namespaces/${ns}/pods?dryRun=All`, probe)) as Raw;
    const outcome = decisionsOf(admitted)[0]?.outcome;
    return outcome === want || notYet(decisionsOf(admitted));
  });
}

/**
 * Value of one counter or gauge; labels as they stand in the text, e.g. `{result="mutated"}`. One that is not exported is an error: closed
 * sets of labels start at zero, so a misspelt one would otherwise stand for "never happened".
 */
export async function metric(process: HarbingerProcess, name: string, labels = ''): Promise<number> {
  const lines = (await process.metrics()).split('\n');
  const value = lines.find((l) => l.startsWith(`${name}${labels} `))?.slice(name.length + labels.length + 1);
  if (value !== undefined) return Number(value);
  const others = lines.filter((l) => l.startsWith(`${name}{`)).map((l) => l.slice(name.length));
  throw new Error(`${process.name} does not export ${name}${labels}; of this name it has: ${others.join(', ') || 'nothing'}`);
}

/** Sum over all labels of a counter; 0 where nothing was counted yet. */
export async function metricSum(process: HarbingerProcess, name: string): Promise<number> {
  const lines = (await process.metrics()).split('\n');
  if (!lines.some((l) => l.startsWith(`# TYPE ${name} `))) throw new Error(`${process.name} has no metric ${name}`);
  return lines.filter((l) => l.startsWith(`${name}{`)).reduce((sum, l) => sum + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);
}

/** Reviews that all replicas have answered with a patch: the positive control of tests in which nothing may change. */
export async function mutated(harbinger: Harbinger): Promise<number> {
  const counts = await Promise.all(
    harbinger.webhooks.map((w) => metric(w, 'harbinger_admission_requests_total', '{result="mutated"}')),
  );
  return counts.reduce((a, b) => a + b, 0);
}

/** What the API server noted about our webhook for one Pod: called and mutated, called, or not called. */
export async function verdictOf(cluster: Cluster, name: string): Promise<'mutated' | 'called' | 'not called'> {
  const event = await until(`the audit event of Pod ${name}`, () => {
    // On create the name stands in the object; the audit log has it as the object's name.
    const all = cluster.audit.query({ verb: 'create', resource: 'pods' });
    return all.find((e) => e.name === name) ?? notYet(all.slice(-3).map((e) => e.name));
  });
  const note = Object.entries(event.annotations).find(([key]) => key.startsWith('mutation.webhook.admission.k8s.io/'))?.[1];
  if (note === undefined) return 'not called';
  return (JSON.parse(note) as { mutated: boolean }).mutated ? 'mutated' : 'called';
}

export interface Images {
  source: string;
  sourceDigest: string;
  variantDigest: string;
}

/** Pushes `repository:v1` and, as `v1-esgz`, its eStargz conversion with a record of its source (`record` false: without). */
export async function pushPair(cluster: Cluster, repository: string, record = true): Promise<Images> {
  const { host } = cluster.registry;
  const options = { seed: repository, bytes: 20_000, files: 2, bare: true };
  const source = await payloadImage(options);
  const variant = record ? await estargzVariant(source, options) : await payloadImage({ ...options, format: 'estargz' });
  await push(source, { host, repository, tags: ['v1'] });
  await push(variant, { host, repository, tags: ['v1-esgz'] });
  return { source: `${host}/${repository}:v1`, sourceDigest: source.digest, variantDigest: variant.digest };
}

/** Pushes one plain image under `repository:tag`; returns its digest. */
export async function pushPlain(cluster: Cluster, repository: string, tag: string, seed = repository): Promise<string> {
  const image = await payloadImage({ seed, bytes: 10_000, files: 1, bare: true });
  await push(image, { host: cluster.registry.host, repository, tags: [tag] });
  return image.digest;
}
