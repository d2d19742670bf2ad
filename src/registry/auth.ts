import { LRUCache } from 'lru-cache';
import { parseObject, string } from '../api/json.js';
import type { RegistryConfig } from '../config/schema.js';
import { fingerprint } from '../images/credential-chain.js';
import { RegistryError } from '../images/registry-port.js';
import type { Credential } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import { parseChallenges } from './challenge.js';
import { apiUrl } from './egress.js';
import type { Egress } from './egress.js';
import type { Answer, Http } from './http.js';
import { errorOf } from './status.js';

/** Largest token answer that is read. */
const MAX_TOKEN_BYTES = 64 * 1024;
const MAX_TOKENS = 2000;
/** What the distribution specification says of an answer without `expires_in`. */
const DEFAULT_LIFE_S = 60;
const MAX_LIFE_S = 3600;

export interface AuthRequest {
  registry: RegistryConfig;
  repository: string;
  credential?: Credential;
  signal?: AbortSignal;
}

interface BearerRealm {
  realm: URL;
  service: string | undefined;
}

type Scheme = { kind: 'basic' } | ({ kind: 'bearer' } & BearerRealm);

interface TokenContext {
  request: AuthRequest;
  scheme: BearerRealm;
  scope: string;
}

/** The Authorization header of registry requests: basic, or bearer tokens that are shared until they expire. */
export class Authorizer {
  readonly #egress: Egress;
  readonly #http: Http;
  /** What each registry asked for last, so that later requests bring it along. */
  readonly #schemes = new Map<string, Scheme>();
  readonly #tokens: LRUCache<string, { token: string }, TokenContext>;

  constructor(egress: Egress, http: Http, clock: Clock) {
    this.#egress = egress;
    this.#http = http;
    this.#tokens = new LRUCache({
      max: MAX_TOKENS,
      perf: clock,
      ttlResolution: 0,
      ttl: DEFAULT_LIFE_S * 1000,
      fetchMethod: async (_key, _stale, { options, context }) => {
        const { token, lifeSeconds } = await this.#fetchToken(context);
        options.ttl = lifeSeconds * 1000;
        return { token };
      },
    });
  }

  /** The header to try first; undefined where the registry has not asked for one yet. */
  async known(request: AuthRequest): Promise<string | undefined> {
    const scheme = this.#schemes.get(request.registry.host);
    return scheme === undefined ? undefined : this.#header(scheme, request);
  }

  /** The header that answers a 401; undefined if there is nothing (new) to send. Throws RegistryError. */
  async answer(request: AuthRequest, headers: readonly string[], tried: string | undefined): Promise<string | undefined> {
    const scheme = this.#choose(request, headers);
    if (scheme === undefined) return undefined;
    this.#schemes.set(request.registry.host, scheme);
    if (scheme.kind === 'bearer' && tried !== undefined) this.#tokens.delete(tokenKey(scheme, request));
    const header = await this.#header(scheme, request);
    return scheme.kind === 'basic' && header === tried ? undefined : header;
  }

  async #header(scheme: Scheme, request: AuthRequest): Promise<string | undefined> {
    if (scheme.kind === 'basic') return request.credential === undefined ? undefined : basic(request.credential);
    const context: TokenContext = { request, scheme, scope: scopeOf(request.repository) };
    const found = await this.#tokens.fetch(tokenKey(scheme, request), { context });
    return found === undefined ? undefined : `Bearer ${found.token}`;
  }

  #choose({ registry }: AuthRequest, headers: readonly string[]): Scheme | undefined {
    const challenges = parseChallenges(headers);
    const bearer = challenges.find(({ scheme, parameters }) => scheme === 'bearer' && parameters['realm'] !== undefined);
    if (bearer !== undefined) {
      const text = bearer.parameters['realm'] ?? '';
      const realm = URL.canParse(text) ? new URL(text) : undefined;
      if (realm === undefined)
        throw new RegistryError(`registry ${registry.host} names no usable token realm`, {
          outcome: 'registry-error',
          host: registry.host,
        });
      realm.username = '';
      realm.password = '';
      return { kind: 'bearer', realm, service: bearer.parameters['service'] };
    }
    return challenges.some(({ scheme }) => scheme === 'basic') ? { kind: 'basic' } : undefined;
  }

  async #fetchToken({ request, scheme, scope }: TokenContext): Promise<{ token: string; lifeSeconds: number }> {
    const { registry, credential, signal } = request;
    const trust = this.#egress.destination(scheme.realm, registry, 'token realm');
    const url = new URL(scheme.realm);
    if (scheme.service !== undefined) url.searchParams.set('service', scheme.service);
    url.searchParams.set('scope', scope);
    const answer = await this.#http.get({
      url,
      trust,
      host: registry.host,
      headers: { accept: 'application/json', ...(credential === undefined ? {} : { authorization: basic(credential) }) },
      maxBytes: MAX_TOKEN_BYTES,
      ...(signal === undefined ? {} : { signal }),
    });
    return readToken(answer, registry.host, { realm: url, anonymous: credential === undefined });
  }
}

/** Docker's token services say `token`, OAuth ones `access_token`. */
function readToken(answer: Answer, host: string, at: { realm: URL; anonymous: boolean }): { token: string; lifeSeconds: number } {
  const who = `the token service ${at.realm.host} of registry ${host}`;
  if (answer.status !== 200) throw errorOf(answer, { host, who, anonymous: at.anonymous });
  const body = parseObject(answer.body.toString('utf8'));
  const token = string(body?.['token']) ?? string(body?.['access_token']);
  // A token becomes part of a header; anything that could end the header is no token.
  if (token === undefined || !/^[\x21-\x7e]+$/.test(token)) {
    throw new RegistryError(`${who} answered without a token; see whether a proxy or login page stands in front of it`, {
      outcome: 'registry-error',
      host,
      status: answer.status,
    });
  }
  const expires = body?.['expires_in'];
  const life = typeof expires === 'number' && expires > 0 ? Math.min(expires, MAX_LIFE_S) : DEFAULT_LIFE_S;
  // A tenth is kept back, so that no token expires on its way.
  return { token, lifeSeconds: Math.max(1, Math.floor(life * 0.9)) };
}

function basic({ username, password }: Credential): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

function scopeOf(repository: string): string {
  return `repository:${repository}:pull`;
}

/** Whatever a token depends on is in its key: one that is shared too widely would show a tenant what another may see. */
function tokenKey({ realm, service }: BearerRealm, { repository, credential, registry }: AuthRequest): string {
  return JSON.stringify([apiUrl(registry).host, realm.href, service ?? '', scopeOf(repository), fingerprint(credential)]);
}
