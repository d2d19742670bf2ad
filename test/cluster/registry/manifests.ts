import { request } from 'undici';

/** A manifest as it was put: `name` is a tag or a digest. */
export interface KeptManifest {
  repository: string;
  name: string;
  mediaType: string;
  body: Buffer;
}

/**
 * Reads all tagged manifests and those that tagged indexes name. The registry of the tests keeps blobs on disk but manifests in memory: this
 * and `restoreManifests` carry them over a restart. Untagged manifests are lost.
 */
export async function readManifests(url: string): Promise<KeptManifest[]> {
  const kept: KeptManifest[] = [];
  const read = async (repository: string, name: string): Promise<void> => {
    const { headers, body } = await request(`${url}/v2/${repository}/manifests/${name}`, { headers: { accept: '*/*' } });
    const content = Buffer.from(await body.arrayBuffer());
    const parsed = JSON.parse(content.toString()) as { manifests?: { digest: string }[] };
    for (const child of parsed.manifests ?? []) await read(repository, child.digest);
    kept.push({ repository, name, mediaType: String(headers['content-type']), body: content });
    const digest = String(headers['docker-content-digest']);
    if (name !== digest) kept.push({ repository, name: digest, mediaType: String(headers['content-type']), body: content });
  };
  for (const repository of await names(`${url}/v2/_catalog?n=1000`, 'repositories')) {
    for (const tag of await names(`${url}/v2/${repository}/tags/list`, 'tags')) await read(repository, tag);
  }
  return kept;
}

/** Puts them again, children before the indexes that name them. */
export async function restoreManifests(url: string, kept: readonly KeptManifest[]): Promise<void> {
  for (const { repository, name, mediaType, body } of kept) {
    const response = await request(`${url}/v2/${repository}/manifests/${name}`, {
      method: 'PUT',
      headers: { 'content-type': mediaType },
      body,
    });
    const text = await response.body.text();
    if (response.statusCode >= 300)
      throw new Error(`registry ${url} did not take ${repository}:${name} back: ${response.statusCode} ${text}`);
  }
}

async function names(url: string, field: 'repositories' | 'tags'): Promise<string[]> {
  const { body } = await request(url);
  const answer = (await body.json()) as Partial<Record<typeof field, string[]>>;
  return answer[field] ?? [];
}
