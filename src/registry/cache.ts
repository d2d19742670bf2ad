import { LRUCache } from 'lru-cache';
import { format } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type {
  Descriptor,
  ImageConfig,
  LookupOptions,
  ManifestFact,
  ReferrersFact,
  RegistryPort,
} from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Metrics } from '../observe/metrics.js';
import { fingerprint } from '../images/credential-chain.js';

/** How long an answer is used, milliseconds. */
export const TTL_MS = {
  /** Bytes behind a digest never change, but they are deleted: that is noticed within minutes. */
  digest: 600_000,
  tag: 30_000,
  /** After that time the old answer is given once more while a new one is fetched. */
  tagStale: 30_000,
  notFound: 15_000,
  /** Services count denials, and many of them say the same for images that are not there. */
  denied: 60_000,
  error: 5000,
} as const;

const MAX_ENTRIES = 20_000;
/** Of all facts; a heap takes several times of what lives in it before it is cleaned up. A thousand images with variants need about this. */
const MAX_BYTES = 14 * 1024 * 1024;
/** An entry itself with its key. */
const ENTRY_BYTES = 600;
const ERROR_BYTES = 900;

type Fact = ManifestFact | ImageConfig | ReferrersFact;

/** An answer or a failure: both are remembered. */
type Settled = Answered | { error: RegistryError; freshUntil: number };

interface Answered {
  value: Fact;
  freshUntil: number;
  /** The answer is not given after that. */
  usableUntil: number;
  /** Why it could not be asked for anew. */
  failure?: RegistryError;
}

interface Kept {
  entry: Settled;
  keepMs: number;
}

interface Call {
  reference: Reference;
  options: LookupOptions;
  run: (options: LookupOptions) => Promise<Fact>;
  /** The answer is behind a digest. */
  immutable: boolean;
}

/**
 * Remembers answers by image and credential, so that what one credential may see is never told to another. A thousand Pods that
 * ask at once cause one call. A caller that gives up leaves the call running: its answer serves the next Pod.
 */
export class CachedRegistry implements RegistryPort {
  readonly #inner: RegistryPort;
  readonly #clock: Clock;
  readonly #questions;
  readonly #cache: LRUCache<string, Settled, Call>;

  constructor(inner: RegistryPort, { clock, metrics }: { clock: Clock; metrics: Metrics }) {
    this.#inner = inner;
    this.#clock = clock;
    this.#questions = metrics.counter('harbinger_registry_cache_total', 'Questions to the registry cache.', {
      result: ['hit', 'miss', 'bypass'],
    });
    this.#cache = new LRUCache<string, Settled, Call>({
      max: MAX_ENTRIES,
      maxSize: MAX_BYTES,
      sizeCalculation: (settled) => ENTRY_BYTES + ('value' in settled ? approximateBytes(settled.value) : ERROR_BYTES),
      // Time comes from the clock, so tests need not wait.
      perf: clock,
      ttlResolution: 0,
      ttl: TTL_MS.error,
      ignoreFetchAbort: true,
      fetchMethod: async (_key, old, { options, context }) => {
        const settled = this.#orOld(await this.#settle(context), old);
        options.ttl = settled.keepMs;
        return settled.entry;
      },
    });
  }

  manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    const run = (o: LookupOptions): Promise<ManifestFact> => this.#inner.manifest(reference, o);
    return this.#lookup(`manifest ${format(reference)}`, {
      reference,
      options,
      run,
      immutable: reference.digest !== undefined,
    }) as Promise<ManifestFact>;
  }

  config(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ImageConfig> {
    const run = (o: LookupOptions): Promise<ImageConfig> => this.#inner.config(reference, digest, o);
    return this.#lookup(`config ${reference.registry}/${reference.repository}@${digest}`, {
      reference,
      options,
      run,
      immutable: true,
    }) as Promise<ImageConfig>;
  }

  referrers(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ReferrersFact> {
    const run = (o: LookupOptions): Promise<ReferrersFact> => this.#inner.referrers(reference, digest, o);
    return this.#lookup(`referrers ${reference.registry}/${reference.repository}@${digest}`, {
      reference,
      options,
      run,
      immutable: false,
    }) as Promise<ReferrersFact>;
  }

  async #lookup(what: string, call: Call): Promise<Fact> {
    const { signal, fresh = false } = call.options;
    const key = `${what} ${asker(call.options)}`;
    const known = fresh ? undefined : this.#cache.get(key);
    this.#questions.inc({ result: fresh ? 'bypass' : known === undefined ? 'miss' : 'hit' });
    // Old but usable: answer now, ask anew for whoever comes next.
    if (known !== undefined && known.freshUntil < this.#clock.now())
      void this.#cache.fetch(key, { context: call, forceRefresh: true });
    if (known !== undefined) return unwrap(known);
    const settled = await patience(
      this.#cache.fetch(key, { context: call, forceRefresh: fresh }),
      signal,
      call.reference.registry,
    );
    // Only an entry that was pushed out while it was fetched is missing; its caller still deserves an answer.
    const entry = settled ?? (await this.#settle(call)).entry;
    if (fresh && 'value' in entry && entry.failure !== undefined) throw entry.failure;
    return unwrap(entry);
  }

  /** Failures are remembered like answers, or each Pod of a gang would meet the same failure at full cost. */
  async #settle({ options, run, immutable }: Call): Promise<Kept> {
    const { credential, forPod = false, anonymous } = options;
    const whose = { ...(credential === undefined ? {} : { credential }), ...(forPod ? { forPod } : {}) };
    try {
      const value = await run(anonymous === true ? { anonymous } : whose);
      const freshMs = immutable ? TTL_MS.digest : TTL_MS.tag;
      const keepMs = freshMs + (immutable ? 0 : TTL_MS.tagStale);
      const now = this.#clock.now();
      return { entry: { value, freshUntil: now + freshMs, usableUntil: now + keepMs }, keepMs };
    } catch (error) {
      if (!(error instanceof RegistryError)) throw error;
      // Where it was thrown says nothing of a registry, and would be most of what is kept of it.
      error.stack = `${error.name}: ${error.message}`;
      const keepMs = keepFailureMs(error);
      return { entry: { error, freshUntil: this.#clock.now() + keepMs }, keepMs };
    }
  }

  /**
   * A failure that says nothing of the image takes no good answer away before its time: half of a gang would get another image than the
   * rest. That access is denied, or the image gone, does.
   */
  #orOld(settled: Kept, old: Settled | undefined): Kept {
    if ('value' in settled.entry || old === undefined || 'error' in old) return settled;
    const { error } = settled.entry;
    const now = this.#clock.now();
    const keepMs = old.usableUntil - now;
    if (error.notFound || error.outcome === 'auth-denied' || keepMs <= 0) return settled;
    // Asked anew as often as without an answer, but not for each Pod.
    return { entry: { ...old, freshUntil: Math.min(now + TTL_MS.error, old.usableUntil), failure: error }, keepMs };
  }
}

function keepFailureMs({ notFound, outcome }: RegistryError): number {
  if (notFound) return TTL_MS.notFound;
  if (outcome === 'auth-denied') return TTL_MS.denied;
  // The breaker answers at once and knows better how long, and a call that had no turn says nothing; zero would mean for ever.
  return outcome === 'circuit-open' || outcome === 'budget-exceeded' ? 1 : TTL_MS.error;
}

function unwrap(settled: Settled): Fact {
  if ('error' in settled) throw settled.error;
  return settled.value;
}

/** Waits for `promise` until `signal` aborts; the work behind it goes on. */
async function patience<T>(promise: Promise<T>, signal: AbortSignal | undefined, host: string): Promise<T> {
  if (signal === undefined) return promise;
  const gaveUp = (): RegistryError =>
    new RegistryError(`registry ${host} did not answer within the time that the caller had; the next Pod may find the answer`, {
      outcome: 'budget-exceeded',
      host,
    });
  // The promise may fail after everyone has left.
  promise.catch(() => undefined);
  if (signal.aborted) throw gaveUp();
  let onAbort: () => void = () => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(gaveUp());
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Whose answer it is: anybody's, a credential's, Harbinger's, or Harbinger's for a Pod, which its own credential may not serve. */
function asker({ credential, forPod = false, anonymous }: LookupOptions): string {
  if (anonymous === true) return 'anybody';
  return credential === undefined && forPod ? 'for a Pod' : fingerprint(credential);
}

/** Memory that a fact holds; a registry may send manifests of 4 MiB, and twenty thousand of those must not be kept. */
function approximateBytes(value: Fact): number {
  if ('kind' in value)
    return (
      800 +
      textBytes(value.annotations) +
      descriptorBytes(value.layers) +
      descriptorBytes([...value.manifests, ...(value.unplaced ?? [])])
    );
  if ('referrers' in value) return 400 + value.detail.length + descriptorBytes(value.referrers);
  const diffIds = value.diffIds.reduce((sum, digest) => sum + 40 + digest.length, 0);
  return 300 + diffIds + textBytes(value.traits);
}

function descriptorBytes(descriptors: readonly Descriptor[]): number {
  return descriptors.reduce((sum, d) => sum + 400 + textBytes(d.annotations), 0);
}

function textBytes(texts: Readonly<Record<string, string>>): number {
  return Object.entries(texts).reduce((sum, [key, value]) => sum + 80 + key.length + value.length, 0);
}
