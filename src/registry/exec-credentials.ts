import { LRUCache } from 'lru-cache';
import { parseObject, record } from '../api/json.js';
import { parseAuths } from '../images/pull-secret.js';
import type { Keyring } from '../images/pull-secret.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import { sleep } from '../observe/clock.js';
import type { Clock } from '../observe/clock.js';
import { runPlugin } from './plugin.js';
import type { Plugin, PluginResult } from './plugin.js';

/**
 * Credentials from the plugins that kubelets use (credentialprovider.kubelet.k8s.io/v1, KEP-2133): a request with the image on standard
 * input, an answer with credentials by registry, and for what and how long it may be kept.
 */

const API_VERSION = 'credentialprovider.kubelet.k8s.io/v1';
/** A kubelet takes this from its own configuration where the plugin does not say it. */
const DEFAULT_KEEP_MS = 5 * 60_000;
/** Answers that may not be kept still serve the other questions of one decision. */
const MIN_KEEP_MS = 10_000;
const MAX_KEEP_MS = 24 * 3_600_000;
/** A plugin that fails costs a process and its time limit: not again for each image. */
const FAILED_MS = 30_000;
/** A denied credential is renewed no more often: every Pod with a mistyped repository would start a process otherwise. */
const RENEW_MS = 60_000;
const MAX_ANSWERS = 1000;
/** Most callers that wait for one plugin; more would be as many promises of Pods that have long been answered. */
const MAX_WAITING = 2000;
/** One run, however long, is waited for; those behind others give up after that time. */
const GRACE_MS = 1000;

const CACHE_KEYS = {
  Image: ({ registry, repository }: Reference) => `image ${registry}/${repository}`,
  Registry: ({ registry }: Reference) => `registry ${registry}`,
  Global: () => 'global',
} as const;

interface State {
  answers: LRUCache<string, Keyring>;
  failure?: { problem: string; until: number };
  /** The one run that is under way. */
  running?: Promise<void>;
  ranAt: number;
  waiting: number;
}

interface Answer {
  cacheKeyType: keyof typeof CACHE_KEYS;
  keepMs: number;
  keyring: Keyring;
}

export class ExecCredentials {
  readonly #clock: Clock;
  readonly #run: typeof runPlugin;
  readonly #states = new Map<string, State>();

  constructor(clock: Clock, run: typeof runPlugin = runPlugin) {
    this.#clock = clock;
    this.#run = run;
  }

  /**
   * Credentials for an image, or why there are none. One process at a time runs for each plugin; whoever waits for it uses its answer
   * where that is for more than one image. `renew` asks the plugin although its answer may be kept, once a minute. Throws RegistryError
   * (`budget-exceeded`) where the answer does not come in time: it is unknown then whether there are any.
   */
  async get(plugin: Plugin, reference: Reference, renew = false): Promise<Keyring> {
    const state = this.#state(plugin);
    if (renew && state.running === undefined && this.#clock.now() - state.ranAt >= RENEW_MS) forget(state, reference);
    const known = this.#known(state, reference);
    if (known !== undefined) return known;
    if (state.waiting >= MAX_WAITING) throw late(plugin, reference);
    const ended = new AbortController();
    state.waiting += 1;
    try {
      const waitMs = plugin.timeoutSeconds * 1000 + GRACE_MS;
      const deadline = sleep(this.#clock, waitMs, ended.signal).then(() => undefined);
      const found = await Promise.race([this.#wait(plugin, state, { reference, signal: ended.signal }), deadline]);
      if (found !== undefined) return found;
      throw late(plugin, reference);
    } finally {
      state.waiting -= 1;
      ended.abort();
    }
  }

  /** Undefined once the caller has left, so that nothing is run for it. */
  async #wait(
    plugin: Plugin,
    state: State,
    { reference, signal }: { reference: Reference; signal: AbortSignal },
  ): Promise<Keyring | undefined> {
    while (!signal.aborted) {
      const known = this.#known(state, reference);
      if (known !== undefined) return known;
      // Whoever waited looks again before it starts a process of its own.
      state.running ??= this.#ask(plugin, state, reference).finally(() => delete state.running);
      await state.running;
    }
    return undefined;
  }

  #state(plugin: Plugin): State {
    const key = JSON.stringify(plugin);
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    const answers = new LRUCache<string, Keyring>({ max: MAX_ANSWERS, perf: this.#clock, ttlResolution: 0, ttl: MIN_KEEP_MS });
    const state = { answers, ranAt: 0, waiting: 0 };
    this.#states.set(key, state);
    return state;
  }

  #known({ answers, failure }: State, reference: Reference): Keyring | undefined {
    const found = keysOf(reference)
      .map((key) => answers.get(key))
      .find((keyring) => keyring !== undefined);
    if (found !== undefined) return found;
    const failed = failure !== undefined && failure.until > this.#clock.now();
    return failed ? { entries: [], problems: [failure.problem] } : undefined;
  }

  async #ask(plugin: Plugin, state: State, reference: Reference): Promise<void> {
    // Without tag and digest, as kubelets do.
    const image = `${reference.registry}/${reference.repository}`;
    const request = JSON.stringify({ apiVersion: API_VERSION, kind: 'CredentialProviderRequest', image });
    const answer = readAnswer(await this.#run(plugin, request));
    state.ranAt = this.#clock.now();
    delete state.failure;
    if (typeof answer === 'string')
      state.failure = { problem: `credential provider ${plugin.command}: ${answer}`, until: state.ranAt + FAILED_MS };
    else state.answers.set(CACHE_KEYS[answer.cacheKeyType](reference), answer.keyring, { ttl: answer.keepMs });
  }
}

function late({ command }: Plugin, { registry }: Reference): RegistryError {
  return new RegistryError(
    `registry ${registry} was not asked, because credential provider ${command} has not answered yet; the next Pod may find the answer`,
    { outcome: 'budget-exceeded', host: registry },
  );
}

function keysOf(reference: Reference): string[] {
  return Object.values(CACHE_KEYS).map((keyOf) => keyOf(reference));
}

function forget(state: State, reference: Reference): void {
  for (const key of keysOf(reference)) state.answers.delete(key);
  delete state.failure;
}

/** The answer, or what is wrong with it in words that contain no part of it. */
function readAnswer(result: PluginResult): Answer | string {
  if (!result.ok) return result.problem;
  const body = parseObject(result.stdout);
  if (body === undefined) return 'its answer is not a JSON object';
  if (body['kind'] !== 'CredentialProviderResponse' || body['apiVersion'] !== API_VERSION)
    return `its answer is not a CredentialProviderResponse of ${API_VERSION}`;
  const { cacheKeyType } = body;
  if (cacheKeyType !== 'Image' && cacheKeyType !== 'Registry' && cacheKeyType !== 'Global')
    return 'cacheKeyType of its answer is none of Image, Registry and Global';
  const keepMs = durationMs(body['cacheDuration']);
  if (keepMs === undefined) return 'cacheDuration of its answer is not a duration such as 6h';
  const keyring = parseAuths(record(body['auth']) ?? {});
  const kept = Math.round(Math.min(Math.max(keepMs, MIN_KEEP_MS), MAX_KEEP_MS));
  return { cacheKeyType, keepMs: kept, keyring };
}

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 1e-3, µs: 1e-3, ns: 1e-6 };

/** A duration as Go writes it (`12h0m0s`). */
function durationMs(value: unknown): number | undefined {
  if (value === undefined || value === null) return DEFAULT_KEEP_MS;
  if (value === '0') return 0;
  if (typeof value !== 'string' || !/^(\d{1,9}(\.\d{1,9})?(h|ms|us|µs|ns|m|s)){1,6}$/.test(value)) return undefined;
  const parts = [...value.matchAll(/([\d.]+)([a-zµ]+)/g)];
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNIT_MS[unit ?? ''] ?? 0), 0);
}
