import { parseObject, string } from '../api/json.js';
import type { RegistryConfig } from '../config/schema.js';
import { RegistryError } from '../images/registry-port.js';
import type { Credential } from '../images/registry-port.js';
import type { Trust } from './egress.js';
import type { Answer, Http } from './http.js';
import { errorOf } from './status.js';

/** Largest token answer that is read. */
const MAX_TOKEN_BYTES = 64 * 1024;
/** What the distribution specification says of an answer without `expires_in`. */
const DEFAULT_LIFE_S = 60;
const MAX_LIFE_S = 3600;
/** Azure's user name for refresh tokens that stand in the place of a password. */
const TOKEN_USER = '00000000-0000-0000-0000-000000000000';
/** How services answer that know no POST, or no refresh tokens. */
const NO_POST: ReadonlySet<number> = new Set([400, 401, 404, 405]);

export interface TokenRequest {
  realm: URL;
  trust: Trust;
  service: string | undefined;
  scope: string;
  registry: RegistryConfig;
  credential?: Credential;
  /** Why there is no credential, for the message of a denial. */
  problem?: string;
  signal?: AbortSignal;
}

export interface Token {
  token: string;
  /** Seconds for which it may be used. */
  lifeSeconds: number;
}

/**
 * Fetches a token: an identity token is traded by POST (OAuth 2), a password by GET; a service that cannot do the first is asked in the
 * second way. Throws RegistryError.
 */
export async function fetchToken(http: Http, request: TokenRequest): Promise<Token> {
  const refreshToken = refreshTokenOf(request.credential);
  if (refreshToken !== undefined) {
    const answer = await send(http, request, { refreshToken });
    if (!NO_POST.has(answer.status)) return readToken(answer, request);
  }
  return readToken(await send(http, request, {}), request);
}

/** The Authorization header of basic authentication; an identity token takes the place of the password. */
export function basic({ username, password, identityToken }: Credential): string {
  const user = username === '' && identityToken !== undefined ? TOKEN_USER : username;
  return `Basic ${Buffer.from(`${user}:${identityToken ?? password}`).toString('base64')}`;
}

function refreshTokenOf(credential: Credential | undefined): string | undefined {
  return credential?.identityToken ?? (credential?.username === TOKEN_USER ? credential.password : undefined);
}

function send(http: Http, request: TokenRequest, { refreshToken }: { refreshToken?: string }): Promise<Answer> {
  const { realm, trust, service, scope, registry, credential, signal } = request;
  const parameters = new URLSearchParams({ ...(service === undefined ? {} : { service }), scope });
  const common = { trust, host: registry.host, purpose: 'token', maxBytes: MAX_TOKEN_BYTES } as const;
  const ended = signal === undefined ? {} : { signal };
  if (refreshToken !== undefined) {
    for (const [name, value] of Object.entries({
      grant_type: 'refresh_token',
      client_id: 'harbinger',
      refresh_token: refreshToken,
    }))
      parameters.set(name, value);
    const headers = { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' };
    return http.send({ ...common, ...ended, method: 'POST', url: realm, headers, body: parameters.toString() });
  }
  const url = new URL(realm);
  for (const [name, value] of parameters) url.searchParams.set(name, value);
  const authorization = credential === undefined ? {} : { authorization: basic(credential) };
  return http.send({ ...common, ...ended, url, headers: { accept: 'application/json', ...authorization } });
}

/** Docker's token services say `token`, OAuth ones `access_token`. */
function readToken(answer: Answer, { realm, registry: { host }, credential, problem }: TokenRequest): Token {
  const who = `the token service ${realm.host} of registry ${host}`;
  if (answer.status !== 200)
    throw errorOf(answer, { host, who, anonymous: credential === undefined, ...(problem === undefined ? {} : { problem }) });
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
