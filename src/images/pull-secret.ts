import { clip } from '../api/conditions.js';
import { parseObject, record, string } from '../api/json.js';
import type { Json } from '../api/json.js';
import { fingerprint } from './credential-chain.js';
import type { Reference } from './reference.js';
import type { Credential } from './registry-port.js';

/**
 * Pull secrets as kubelets read them (kubernetes pkg/credentialprovider): keys may have a scheme, a port, a path, the suffixes
 * `/v1/` and `/v2/`, and globs in the host; every key that matches counts, in descending order of the keys.
 */

/** Credentials of one pull secret or docker config file. */
export interface Keyring {
  entries: readonly KeyringEntry[];
  /** Entries that could not be used, in words that contain no part of a credential. */
  problems: readonly string[];
}

interface KeyringEntry {
  /** May hold `*` and `?`, which never match a dot. */
  host: string;
  /** What the repository begins with, without slash at either end; empty for the whole registry. */
  path: string;
  credential: Credential;
}

/** All these keys mean Docker Hub, whose images carry `docker.io`. */
const HUB_KEYS: ReadonlySet<string> = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);

/** Programs that a file of somebody else names are not run. */
const HELPER =
  'it keeps passwords with a helper program (credsStore, credHelpers), which is not asked; write a file with auths, or use a credential provider (exec)';

/** Reads a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg (`data` is base64). Total. */
export function parsePullSecret(secret: { type?: string; data?: Record<string, string> }): Keyring {
  const modern = secret.data?.['.dockerconfigjson'];
  const legacy = secret.data?.['.dockercfg'];
  if (modern !== undefined) return parseDockerConfig(decode(modern));
  if (legacy !== undefined) return keyring(parseObject(decode(legacy)));
  return { entries: [], problems: ['the secret has neither .dockerconfigjson nor .dockercfg'] };
}

/** Reads the text of a docker config file. Total. */
export function parseDockerConfig(text: string): Keyring {
  const config = parseObject(text);
  if (config === undefined) return { entries: [], problems: ['it is not a JSON object'] };
  const { entries, problems } = keyring(record(config['auths']));
  const helped = config['credsStore'] !== undefined || config['credHelpers'] !== undefined;
  return { entries, problems: helped ? [HELPER] : problems };
}

/** Reads the `auth` map of a kubelet credential provider's answer, whose keys follow the same rules. Total. */
export function parseAuths(auths: Json | undefined): Keyring {
  return keyring(auths);
}

/**
 * All credentials for an image in the order in which a kubelet tries them, without duplicates. Like a kubelet it puts the entries of all
 * secrets together: descending by key, so that a longer path goes first, and in the order of the secrets where keys are equal.
 */
export function credentialsFor(reference: Reference, keyrings: readonly Keyring[]): Credential[] {
  const matching = keyrings.flatMap(({ entries }) => entries.filter((entry) => matches(entry, reference)));
  const credentials = matching.sort((a, b) => compare(keyOf(b), keyOf(a))).map(({ credential }) => credential);
  return [...new Map(credentials.map((credential) => [fingerprint(credential), credential])).values()];
}

/** By code unit, as Go sorts: the order must not depend on the locale. */
function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function keyOf({ host, path }: KeyringEntry): string {
  return path === '' ? host : `${host}/${path}`;
}

function keyring(auths: Json | undefined): Keyring {
  if (auths === undefined) return { entries: [], problems: ['it lists no registries (auths)'] };
  const entries: KeyringEntry[] = [];
  const problems: string[] = [];
  for (const [key, value] of Object.entries(auths)) {
    const credential = credentialOf(record(value));
    const place = splitKey(key);
    if (credential === undefined) problems.push(`entry ${quote(key)} holds no user name and password`);
    else if (place === undefined) problems.push(`entry ${quote(key)} is not a registry`);
    else entries.push({ ...place, credential });
  }
  return { entries, problems };
}

/** An identity token serves alone; the rest of such an entry is a placeholder. */
function credentialOf(entry: Json | undefined): Credential | undefined {
  const found = userAndPassword(entry);
  const identityToken = string(entry?.['identitytoken']);
  if (identityToken === undefined) return found;
  return { username: found?.username ?? '', password: found?.password ?? '', identityToken };
}

/** `username` and `password`, or both in `auth`; passwords may hold colons (`_json_key:{"a":..}`). */
function userAndPassword(entry: Json | undefined): Credential | undefined {
  const { username, password, auth } = entry ?? {};
  if (typeof username === 'string' && username !== '' && typeof password === 'string') return { username, password };
  if (typeof auth !== 'string' || !/^[A-Za-z0-9+/_=-]+$/.test(auth)) return undefined;
  const text = decode(auth);
  const colon = text.indexOf(':');
  return colon <= 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

function splitKey(key: string): { host: string; path: string } | undefined {
  const bare = key.trim().replace(/^https?:\/\//i, '');
  const slash = bare.indexOf('/');
  const host = (slash < 0 ? bare : bare.slice(0, slash)).toLowerCase();
  if (!/^[a-z0-9.*?[\]:_-]+$/.test(host)) return undefined;
  const path = (slash < 0 ? '' : bare.slice(slash)).replace(/^\/v[12](?=\/|$)/, '').replace(/^\/+|\/+$/g, '');
  return { host: HUB_KEYS.has(host) ? 'docker.io' : host, path };
}

function matches({ host, path }: KeyringEntry, { registry, repository }: Reference): boolean {
  // A kubelet does not stop at a slash either: `nvcr.io/nv` is for `nvcr.io/nvidia/..` too.
  return repository.startsWith(path) && hostMatches(host, registry.toLowerCase());
}

/** Part by part, as a glob must not reach over a dot: `*.example.com` is not `a.b.example.com`. Ports must be equal. */
function hostMatches(pattern: string, host: string): boolean {
  if (pattern === host) return true;
  if (!/[*?]/.test(pattern)) return false;
  const [patternHost = '', patternPort = ''] = splitPort(pattern);
  const [name = '', port = ''] = splitPort(host);
  const [globs, parts] = [patternHost.split('.'), name.split('.')];
  return patternPort === port && globs.length === parts.length && globs.every((glob, i) => globMatches(glob, parts[i] ?? ''));
}

function splitPort(host: string): string[] {
  const match = /^(.*?)(?::(\d+))?$/.exec(host);
  return [match?.[1] ?? '', match?.[2] ?? ''];
}

/** Linear in the lengths: patterns come from tenants, and a regular expression built from `*` signs can be made to backtrack. */
function globMatches(glob: string, text: string): boolean {
  let [g, t, star, mark] = [0, 0, -1, 0];
  while (t < text.length) {
    if (g < glob.length && (glob[g] === '?' || glob[g] === text[t]) && glob[g] !== '*') [g, t] = [g + 1, t + 1];
    else if (glob[g] === '*') [star, mark, g] = [g, t, g + 1];
    else if (star >= 0) [g, t, mark] = [star + 1, mark + 1, mark + 1];
    else return false;
  }
  while (glob[g] === '*') g += 1;
  return g === glob.length;
}

function decode(base64: string): string {
  return Buffer.from(base64, 'base64').toString('utf8');
}

function quote(text: string): string {
  return JSON.stringify(clip(text, 60));
}
