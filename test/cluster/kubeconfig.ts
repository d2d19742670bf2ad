import { writeFileSync } from 'node:fs';
import { stringify } from 'yaml';
import type { KeyPair } from './pki.js';

export type Credential = KeyPair | { token: string };

/** Writes a kubeconfig with one context (`test`) and returns its path. */
export function writeKubeconfig(path: string, server: { url: string; ca: string }, credential: Credential): string {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const user =
    'token' in credential
      ? { token: credential.token }
      : { 'client-certificate-data': base64(credential.cert), 'client-key-data': base64(credential.key) };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server: server.url, 'certificate-authority-data': base64(server.ca) } }],
    users: [{ name: 'test', user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  };
  writeFileSync(path, stringify(config), { mode: 0o600 });
  return path;
}
