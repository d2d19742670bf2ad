import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { ImageConfig, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import type { Clock, Timer } from '../observe/clock.js';
import type { Metrics } from '../observe/metrics.js';
import type { Breaker } from './breaker.js';
import type { Egress } from './egress.js';
import { UnreachableError } from './http-failure.js';
import type { RateLimits } from './rate-limit.js';
import { askerOf, partOf, senderOf } from './target.js';
import type { HostOptions, HostPort } from './target.js';

export interface GuardOptions {
  egress: Egress;
  breaker: Breaker;
  limits: RateLimits;
  metrics: Metrics;
  clock: Clock;
}

/**
 * How long callers wait for the one call that tries a host again, milliseconds. Where the host still hangs, all Pods of that image would
 * wait for their whole budget; the trial itself goes on and tells whoever comes next.
 */
const TRIAL_WAIT_MS = 100;

/** What can be left alone, from narrow to wide: keys of the breaker. */
interface Scopes {
  host: string;
  isMirror: boolean;
  /** The images of one project, for one asker. */
  part: string;
  /** All that one asker wants of a host. */
  asker: string;
  whole: string;
}

/**
 * Puts the breaker in front of registries: what fails or limits is not asked for a while, and the answer says for how long and why. A
 * tenant can name images that fail and bring credentials that are limited, so a failure counts against a whole host only where no
 * connection came about, a limit only against the credential that met it, and the rest against a project until several fail.
 */
export class GuardedRegistry implements RegistryPort, HostPort {
  readonly #inner: HostPort;
  readonly #options: GuardOptions;

  constructor(inner: HostPort, options: GuardOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  manifest(reference: Reference, options: HostOptions = {}): Promise<ManifestFact> {
    return this.#call(reference, options, () => this.#inner.manifest(reference, options));
  }

  config(reference: Reference, digest: string, options: HostOptions = {}): Promise<ImageConfig> {
    return this.#call(reference, options, () => this.#inner.config(reference, digest, options));
  }

  referrers(reference: Reference, digest: string, options: HostOptions = {}): Promise<ReferrersFact> {
    return this.#call(reference, options, () => this.#inner.referrers(reference, digest, options));
  }

  async #call<T>(reference: Reference, options: HostOptions, call: () => Promise<T>): Promise<T> {
    // First, so that hosts which tenants make up get neither a breaker nor a metric.
    const target = options.mirror ?? this.#options.egress.registry(reference.registry);
    const asker = askerOf(options, target);
    const scopes: Scopes = {
      host: target.host,
      isMirror: options.mirror !== undefined,
      part: `${target.host} ${asker} ${partOf(reference)} `,
      asker: `${target.host} ${asker} `,
      whole: `${target.host} `,
    };
    this.#enter(scopes, senderOf(options, target) === 'pod', reference);
    const isTrial = [scopes.part, scopes.asker, scopes.whole].some((key) => this.#options.breaker.state(key) === 'half-open');
    const running = this.#run(scopes, call);
    return isTrial ? this.#briefly(running, scopes.host) : running;
  }

  async #run<T>(scopes: Scopes, call: () => Promise<T>): Promise<T> {
    try {
      const value = await call();
      this.#succeed(scopes);
      return value;
    } catch (error) {
      this.#learn(scopes, error);
      throw error;
    } finally {
      this.#show(scopes);
    }
  }

  /** The promise, or its refusal once the wait for a trial is over. */
  async #briefly<T>(running: Promise<T>, host: string): Promise<T> {
    // It may fail after its caller has left.
    running.catch(() => undefined);
    let timer: Timer | undefined;
    const over = new Promise<never>((_resolve, reject) => {
      const refuse = (): void => reject(leftAlone(host, '', { cause: 'a call that tries it again is under way', waitMs: 1000 }));
      timer = this.#options.clock.setTimeout(refuse, TRIAL_WAIT_MS);
    });
    try {
      return await Promise.race([running, over]);
    } finally {
      timer?.cancel();
    }
  }

  /** Throws where a pause is not over; what was entered before is given back then. */
  #enter(scopes: Scopes, byPod: boolean, reference: Reference): void {
    const { breaker, limits } = this.#options;
    const withCredential = byPod ? ' with this credential' : '';
    const limited = limits.wait(scopes.asker);
    if (limited !== undefined) throw leftAlone(scopes.host, withCredential, limited);
    const steps: [string, string][] = [
      [scopes.part, ` with images of ${partOf(reference)}`],
      [scopes.asker, withCredential],
      [scopes.whole, ''],
    ];
    for (const [i, [key, where]] of steps.entries()) {
      const refused = breaker.enter(key);
      if (refused === undefined) continue;
      for (const [entered] of steps.slice(0, i)) breaker.abandon(entered);
      throw leftAlone(scopes.host, where, refused);
    }
  }

  #succeed({ part, asker, whole }: Scopes): void {
    for (const key of [part, asker, whole]) this.#options.breaker.succeed(key);
  }

  /** An answer of any kind closes the breaker; a caller that gave up, or one that was not let through, says nothing about the host. */
  #learn(scopes: Scopes, error: unknown): void {
    if (!(error instanceof RegistryError) || error.outcome === 'budget-exceeded' || error.outcome === 'circuit-open')
      this.#abandon(scopes);
    else if (isFailure(error)) this.#fail(scopes, error);
    else this.#succeed(scopes);
  }

  #fail(scopes: Scopes, error: RegistryError): void {
    const { part, asker, whole, isMirror } = scopes;
    const { breaker } = this.#options;
    const cause = error.message;
    const asked = error.retryAfterMs === undefined ? {} : { askedMs: error.retryAfterMs };
    if (error instanceof UnreachableError) breaker.fail(whole, { cause, atOnce: isMirror });
    else if (error.status === 429) breaker.fail(asker, { cause, atOnce: true, ...asked });
    else {
      breaker.fail(part, { cause, atOnce: isMirror, ...asked });
      breaker.fail(asker, { cause, witness: part });
    }
    if (error.status !== undefined) breaker.succeed(whole);
    // Trials that this call had in the other scopes are given back.
    this.#abandon(scopes);
  }

  #abandon({ part, asker, whole }: Scopes): void {
    for (const key of [part, asker, whole]) this.#options.breaker.abandon(key);
  }

  /** Without the credentials of Pods: what those meet is no matter of whoever runs the registry. */
  #show({ host, whole }: Scopes): void {
    const { breaker, metrics } = this.#options;
    const help =
      'Whether requests to a listed registry or a mirror, or to a part of it, are let through: 0 closed, 1 half-open, 2 open.';
    const states = [breaker.state(whole), ...['own', 'anybody'].map((asker) => breaker.worst(`${whole}${asker} `))];
    const value = Math.max(...states.map((state) => ({ closed: 0, 'half-open': 1, open: 2 })[state]));
    metrics.gauge('harbinger_registry_breaker_state', help, ['host']).set({ host }, value);
  }
}

function leftAlone(host: string, where: string, { cause, waitMs }: { cause: string; waitMs: number }): RegistryError {
  const seconds = Math.ceil(waitMs / 1000);
  return new RegistryError(`registry ${host} is left alone${where} for ${seconds} s more: ${cause}`, {
    outcome: 'circuit-open',
    host,
    retryAfterMs: waitMs,
  });
}

/** One image that is unusable says nothing of its registry: else a tenant could name five of those and cut off everyone. */
function isFailure({ outcome, status }: RegistryError): boolean {
  return outcome === 'registry-error' && (status === undefined || status === 429 || status >= 500);
}
