import { request, type Dispatcher } from 'undici';
import type { Blob, Image, Index } from './types.js';

export interface PushTarget {
  /** `host:port` of a plain-HTTP registry. */
  host: string;
  repository: string;
  /** Besides the digest. */
  tags?: readonly string[];
  /** Sent as basic authentication. */
  credential?: { username: string; password: string };
}

/**
 * Sends an image or an index with all its images; blobs that the registry has are not sent again.
 * Returns the reference by digest, `host/repository@sha256:...`. Fails with the registry's own answer.
 */
export async function push(image: Image | Index, target: PushTarget): Promise<string> {
  const images = image.kind === 'index' ? image.images : [image];
  for (const each of images) {
    for (const blob of [...each.layers, each.config]) await pushBlob(blob, target);
    if (each !== image) await putManifest(each, each.digest, target);
  }
  for (const name of [image.digest, ...(target.tags ?? [])]) await putManifest(image, name, target);
  return `${target.host}/${target.repository}@${image.digest}`;
}

async function pushBlob(blob: Blob, target: PushTarget): Promise<void> {
  const base = `http://${target.host}/v2/${target.repository}/blobs`;
  const held = await send(target, { method: 'HEAD', url: `${base}/${blob.digest}`, accept: [200, 404] });
  if (held.statusCode === 200) return;
  const session = await send(target, { method: 'POST', url: `${base}/uploads/`, accept: [202] });
  const location = session.headers.location;
  if (typeof location !== 'string')
    throw new Error(`registry ${target.host}: upload to ${target.repository} was accepted without a Location`);
  const url = new URL(location, base);
  url.searchParams.set('digest', blob.digest);
  // The registry is given the length, so it takes the blob in one request however big it is.
  const headers = { 'content-type': 'application/octet-stream', 'content-length': String(blob.size) };
  await send(target, { method: 'PUT', url: url.href, accept: [201], headers, body: blob.open() });
}

async function putManifest(image: Image | Index, name: string, target: PushTarget): Promise<void> {
  const url = `http://${target.host}/v2/${target.repository}/manifests/${name}`;
  await send(target, {
    method: 'PUT',
    url,
    accept: [200, 201],
    headers: { 'content-type': image.mediaType },
    body: image.manifest,
  });
}

interface Sending {
  method: 'HEAD' | 'POST' | 'PUT';
  url: string;
  accept: readonly number[];
  headers?: Record<string, string>;
  body?: Dispatcher.DispatchOptions['body'];
}

async function send(
  { host, credential }: PushTarget,
  { method, url, accept, headers, body }: Sending,
): Promise<Dispatcher.ResponseData> {
  const authorization = credential && `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString('base64')}`;
  const response = await request(url, {
    method,
    headers: { ...headers, ...(authorization && { authorization }) },
    body: body ?? null,
    // A shaped link may take minutes for one blob.
    headersTimeout: 600_000,
  });
  const text = await response.body.text();
  if (!accept.includes(response.statusCode))
    throw new Error(`registry ${host} answered ${response.statusCode} to ${method} ${url}: ${text.slice(0, 300)}`);
  return response;
}
