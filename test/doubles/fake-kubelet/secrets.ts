import type { ClusterClient, Raw } from '../../cluster/client.js';
import type { Reference } from './reference.js';
import type { Credential } from './registry.js';

interface DockerConfig {
  auths?: Record<string, { auth?: string; username?: string; password?: string }>;
}

/** Credentials of a Pod's imagePullSecrets for a repository. Secrets that are absent or of another type count for nothing, as with the kubelet. */
export async function credentialsFor(
  client: ClusterClient,
  pod: Raw,
  { registry, repository }: Reference,
): Promise<Credential[]> {
  const found: Credential[] = [];
  for (const { name } of (pod['spec'].imagePullSecrets ?? []) as { name: string }[]) {
    const secret = await client.find('v1/Secret', `${pod.metadata.namespace}/${name}`);
    const data: string | undefined = secret?.['data']?.['.dockerconfigjson'];
    if (!data) continue;
    const { auths = {} } = JSON.parse(Buffer.from(data, 'base64').toString()) as DockerConfig;
    for (const [key, entry] of Object.entries(auths)) {
      const prefix = key.replace(/^https?:\/\//, '').replace(/\/(v[12]\/?)?$/, '');
      if (`${registry}/${repository}/`.startsWith(`${prefix}/`)) found.push(credential(entry));
    }
  }
  return found;
}

function credential({ auth, username = '', password = '' }: { auth?: string; username?: string; password?: string }): Credential {
  if (!auth) return { username, password };
  const text = Buffer.from(auth, 'base64').toString();
  const colon = text.indexOf(':');
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
