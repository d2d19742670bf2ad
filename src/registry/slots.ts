import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { ImageConfig, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Metrics } from '../observe/metrics.js';
import type { HostOptions, HostPort } from './target.js';

export interface SlotLimits {
  /** Calls under way at once. */
  total: number;
  perHost: number;
}

/** Most calls that wait for their turn; more would be as many promises of Pods that have long been answered. */
const MAX_WAITING = 2_000;
/** Longest wait for a turn: no admission waits longer, and other callers come again. */
const MAX_WAIT_MS = 2_500;

type Refusal = 'full' | 'late';

interface Waiter {
  deadline: number;
  start: (refusal?: Refusal) => void;
}

/**
 * Limits how many calls are under way, in all and to each host: a Pod may name any number of images, and a registry that answers slowly
 * must neither be buried nor take the turns of the others. Below the cache, so that what is known never waits.
 */
export class SlottedRegistry implements RegistryPort, HostPort {
  readonly #inner: HostPort;
  readonly #limits: SlotLimits;
  readonly #clock: Clock;
  readonly #underWay = new Map<string, number>();
  /** By host, in the order in which hosts get the next free turn. */
  readonly #waiting = new Map<string, Waiter[]>();
  #total = 0;
  #queued = 0;
  readonly #refused;
  readonly #shown;

  constructor(inner: HostPort, { limits, clock, metrics }: { limits: SlotLimits; clock: Clock; metrics: Metrics }) {
    this.#inner = inner;
    this.#limits = limits;
    this.#clock = clock;
    this.#refused = metrics.counter(
      'harbinger_registry_calls_refused_total',
      'Calls to registries that were not made because too many were under way: full, no room to wait; late, no turn in time.',
      { reason: ['full', 'late'] },
    );
    this.#shown = metrics.gauge('harbinger_registry_calls', 'Calls to registries that are under way or wait for their turn.', {
      state: ['under-way', 'waiting'],
    });
  }

  manifest(reference: Reference, options?: HostOptions): Promise<ManifestFact> {
    return this.#run(hostOf(reference, options), () => this.#inner.manifest(reference, options));
  }

  config(reference: Reference, digest: string, options?: HostOptions): Promise<ImageConfig> {
    return this.#run(hostOf(reference, options), () => this.#inner.config(reference, digest, options));
  }

  referrers(reference: Reference, digest: string, options?: HostOptions): Promise<ReferrersFact> {
    return this.#run(hostOf(reference, options), () => this.#inner.referrers(reference, digest, options));
  }

  async #run<T>(host: string, call: () => Promise<T>): Promise<T> {
    if (this.#hasRoom(host)) this.#take(host);
    else await this.#turn(host);
    try {
      return await call();
    } finally {
      this.#giveBack(host);
    }
  }

  /** Resolves when the caller holds a slot. */
  #turn(host: string): Promise<void> {
    if (this.#queued >= MAX_WAITING) this.#dropLate();
    if (this.#queued >= MAX_WAITING) return Promise.reject(this.#refusal(host, 'full'));
    return new Promise((resolve, reject) => {
      const start = (refusal?: Refusal): void => (refusal === undefined ? resolve() : reject(this.#refusal(host, refusal)));
      const queue = this.#waiting.get(host) ?? [];
      queue.push({ deadline: this.#clock.now() + MAX_WAIT_MS, start });
      this.#waiting.set(host, queue);
      this.#queued++;
      this.#show();
    });
  }

  #hasRoom(host: string): boolean {
    return this.#total < this.#limits.total && (this.#underWay.get(host) ?? 0) < this.#limits.perHost;
  }

  #take(host: string): void {
    this.#total++;
    this.#underWay.set(host, (this.#underWay.get(host) ?? 0) + 1);
    this.#show();
  }

  #giveBack(host: string): void {
    this.#total--;
    const left = (this.#underWay.get(host) ?? 1) - 1;
    if (left > 0) this.#underWay.set(host, left);
    else this.#underWay.delete(host);
    this.#dropLate();
    this.#startNext();
    this.#show();
  }

  /** Gives free slots away; a host that got one goes to the end of the line. */
  #startNext(): void {
    for (const [host, queue] of [...this.#waiting]) {
      if (this.#total >= this.#limits.total) return;
      if (!this.#hasRoom(host)) continue;
      const waiter = queue.shift();
      this.#waiting.delete(host);
      if (queue.length > 0) this.#waiting.set(host, queue);
      if (waiter === undefined) continue;
      this.#queued--;
      this.#take(host);
      waiter.start();
    }
  }

  /** All wait equally long, so those whose time is over stand at the front. */
  #dropLate(): void {
    const now = this.#clock.now();
    for (const [host, queue] of this.#waiting) {
      const first = queue.findIndex((w) => w.deadline > now);
      const late = queue.splice(0, first < 0 ? queue.length : first);
      if (queue.length === 0) this.#waiting.delete(host);
      this.#queued -= late.length;
      for (const waiter of late) waiter.start('late');
    }
  }

  #refusal(host: string, reason: Refusal): RegistryError {
    this.#refused.inc({ reason });
    const message = `registry ${host} was not asked, because too many calls are under way (${this.#total}, ${this.#underWay.get(host) ?? 0} of them to it); the next Pod may find the answer`;
    return new RegistryError(message, { outcome: 'budget-exceeded', host });
  }

  #show(): void {
    this.#shown.set({ state: 'under-way' }, this.#total);
    this.#shown.set({ state: 'waiting' }, this.#queued);
  }
}

/** The host that takes the turn: a mirror that hangs must not take those of the registry. */
function hostOf({ registry }: Reference, options: HostOptions = {}): string {
  return options.mirror?.host ?? registry;
}
