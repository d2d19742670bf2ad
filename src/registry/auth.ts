import { LRUCache } from 'lru-cache';
import type { RegistryConfig } from '../config/schema.js';
import { fingerprint } from '../images/credential-chain.js';
import { RegistryError } from '../images/registry-port.js';
import type { Credential } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import { parseChallenges } from './challenge.js';
import { apiUrl } from './egress.js';
import type { Egress } from './egress.js';
import type { Http } from './http.js';
import { basic, fetchToken } from './token-service.js';

const MAX_TOKENS = 2000;
const DEFAULT_LIFE_MS = 60_000;
/** A denied repository is asked for no more often than this: services count denials, and they say the same for absent ones. */
const DENIED_MS = 60_000;
/** How long a token service that fails is left alone, where it does not say for how long itself. */
const PAUSE_MS = { limited: 15_000, failed: 5000, longest: 5 * 60_000 } as const;

export interface AuthRequest {
  registry: RegistryConfig;
  repository: string;
  /** What the token has to allow. */
  actions: 'pull' | 'pull,push';
  credential?: Credential;
  /** Why there is no credential, for the message of a denial. */
  problem?: string;
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
}

/** The Authorization header of registry requests: basic, or bearer tokens that are shared until they expire. */
export class Authorizer {
  readonly #egress: Egress;
  readonly #http: Http;
  readonly #clock: Clock;
  /** What each registry asked for last, so that later requests bring it along. */
  readonly #schemes = new Map<string, Scheme>();
  readonly #tokens: LRUCache<string, { token: string }, TokenContext>;
  readonly #denied: LRUCache<string, RegistryError>;
  /** Token services that failed with a credential, and until when they are left alone. */
  readonly #paused: LRUCache<string, { until: number; cause: string }>;

  constructor(egress: Egress, http: Http, clock: Clock) {
    this.#egress = egress;
    this.#http = http;
    this.#clock = clock;
    const common = { perf: clock, ttlResolution: 0 };
    this.#denied = new LRUCache({ ...common, max: MAX_TOKENS, ttl: DENIED_MS });
    this.#paused = new LRUCache({ max: MAX_TOKENS });
    this.#tokens = new LRUCache({
      ...common,
      max: MAX_TOKENS,
      ttl: DEFAULT_LIFE_MS,
      fetchMethod: async (key, _stale, { options, context }) => {
        const { token, lifeSeconds } = await this.#fetchToken(key, context);
        options.ttl = lifeSeconds * 1000;
        return { token };
      },
    });
  }

  /** The header to try first; undefined where the registry has not asked for one yet. Throws RegistryError. */
  async known(request: AuthRequest): Promise<string | undefined> {
    const scheme = this.#schemes.get(request.registry.host);
    return scheme === undefined ? undefined : this.#header(scheme, request);
  }

  /** The header that answers a 401; undefined if there is nothing (new) to send. Throws RegistryError. */
  async answer(request: AuthRequest, headers: readonly string[], tried: string | undefined): Promise<string | undefined> {
    const scheme = this.#choose(request, headers);
    if (scheme === undefined) return undefined;
    // Harbor asks for basic where a token does not suffice: that is about one repository, not about the registry.
    const afterToken = scheme.kind === 'basic' && tried?.startsWith('Bearer ') === true;
    if (!afterToken) this.#schemes.set(request.registry.host, scheme);
    if (scheme.kind === 'bearer' && tried !== undefined) this.#tokens.delete(tokenKey(scheme, request));
    const header = await this.#header(scheme, request);
    return scheme.kind === 'basic' && header === tried ? undefined : header;
  }

  async #header(scheme: Scheme, request: AuthRequest): Promise<string | undefined> {
    if (scheme.kind === 'basic') return request.credential === undefined ? undefined : basic(request.credential);
    const key = tokenKey(scheme, request);
    const denied = this.#denied.get(key);
    if (denied !== undefined) throw denied;
    const found = await this.#tokens.fetch(key, { context: { request, scheme } });
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

  async #fetchToken(key: string, { request, scheme }: TokenContext): Promise<{ token: string; lifeSeconds: number }> {
    const { registry, credential, problem, signal } = request;
    const trust = this.#egress.destination(scheme.realm, registry, 'token realm');
    this.#refusePaused(scheme.realm, request);
    try {
      return await fetchToken(this.#http, {
        ...scheme,
        trust,
        registry,
        scope: scopeOf(request),
        ...(credential === undefined ? {} : { credential }),
        ...(problem === undefined ? {} : { problem }),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (error instanceof RegistryError) this.#learn(key, pauseKey(scheme.realm, request), error);
      throw error;
    }
  }

  /** One token service serves all repositories of a registry: where it fails for one, the others need not try. */
  #refusePaused(realm: URL, request: AuthRequest): void {
    const paused = this.#paused.get(pauseKey(realm, request));
    const waitMs = (paused?.until ?? 0) - this.#clock.now();
    if (paused === undefined || waitMs <= 0) return;
    throw new RegistryError(
      `the token service ${realm.host} of registry ${request.registry.host} is left alone for ${Math.ceil(waitMs / 1000)} s more: ${paused.cause}`,
      { outcome: 'circuit-open', host: request.registry.host, retryAfterMs: waitMs },
    );
  }

  #learn(key: string, pause: string, error: RegistryError): void {
    if (error.outcome === 'auth-denied') this.#denied.set(key, error);
    if (error.outcome !== 'registry-error') return;
    const pauseMs = error.retryAfterMs ?? (error.status === 429 ? PAUSE_MS.limited : PAUSE_MS.failed);
    this.#paused.set(pause, { until: this.#clock.now() + Math.min(pauseMs, PAUSE_MS.longest), cause: error.message });
  }
}

function scopeOf({ repository, actions }: AuthRequest): string {
  return `repository:${repository}:${actions}`;
}

/** Services limit accounts, and one may fail over what a Pod's secret holds: that pauses nobody else. */
function pauseKey(realm: URL, { credential }: AuthRequest): string {
  return `${fingerprint(credential)} ${realm.href}`;
}

/** Whatever a token depends on is in its key: one that is shared too widely would show a tenant what another may see. */
function tokenKey({ realm, service }: BearerRealm, request: AuthRequest): string {
  const { credential, registry } = request;
  return JSON.stringify([apiUrl(registry).host, realm.href, service ?? '', scopeOf(request), fingerprint(credential)]);
}
