import { KubeError } from '../kube/errors.js';
import { Lease } from '../kube/lease.js';
import { RESOURCE } from '../kube/resources.js';
import { sleep } from '../observe/clock.js';
import { GateWatch } from './watchdog-gates.js';
import { HoldWatch } from './watchdog-holds.js';
import type { Watch, WatchdogOptions } from './watchdog-watch.js';

/** Only Workloads with reserved quota can be held; the many that wait without need not be sent to this process. */
const RESERVED = 'status.admission.clusterQueue!=';
/** Only those without can be gated. */
const UNRESERVED = 'status.admission.clusterQueue=';
const RETRY_LEASE_MS = 2_000;
/** What is followed is looked at so often. */
const LOOK_MS = 1_000;
/** While Workloads cannot be watched, it is asked so often whether they can be selected: another Kueue may be there. */
const ASK_AGAIN_MS = 30_000;

/**
 * Ends holds whose time is over (promise P5). It runs in the webhook processes, so that it lives while the controller does
 * not, and knows nothing but the held object and the clock.
 */
export class Watchdog {
  readonly #options: WatchdogOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #problem: string | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** Why holds cannot be watched (for example: no Kueue), or undefined. Serving admissions does not depend on it. */
  get problem(): string | undefined {
    return this.#problem;
  }

  start(): void {
    this.#running = this.#campaign();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** One replica after the other holds the Lease. A lost one is tried for again: serving goes on whoever watches. */
  async #campaign(): Promise<void> {
    const { client, lease, clock, log } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let watching: Promise<void> = Promise.resolve();
      try {
        await new Lease({ client, ...lease, clock, log }).run(signal, {
          onStarted: (held) => {
            watching = this.#watch(held);
          },
          onLost: (reason) => log.warn({ lease: lease.name, reason }, 'watchdog lease lost'),
        });
      } catch (err) {
        log.warn({ err, lease: lease.name }, 'watchdog lease failed, trying again');
      }
      await watching;
      await sleep(clock, RETRY_LEASE_MS, signal);
    }
  }

  /** Follows what can be held until the Lease is lost, anew whenever what is followed has to change. */
  async #watch(held: AbortSignal): Promise<void> {
    while (!held.aborted) {
      const select = await this.#canSelect();
      const gates = this.#options.gatedMs() !== undefined;
      const watches: Watch[] = [
        new HoldWatch(this.#options, select ? RESERVED : undefined),
        ...(gates ? [new GateWatch(this.#options, select ? UNRESERVED : undefined)] : []),
      ];
      for (const watch of watches) watch.start();
      await this.#untilChanged(held, { watches, select, gates });
      await Promise.all(watches.map((w) => w.stop()));
    }
  }

  /** Kueue's CRD has the selectable field since v0.19; before, all Workloads are watched, which costs memory and nothing else. */
  async #canSelect(): Promise<boolean> {
    const { client, log } = this.#options;
    try {
      await client.list(RESOURCE.workloads, { fieldSelector: RESERVED, limit: 1 })[Symbol.asyncIterator]().next();
      return true;
    } catch (err) {
      if (!(err instanceof KubeError) || err.status !== 400) return true;
      log.warn({ err }, 'this Kueue cannot select Workloads by reserved quota, watching all of them');
      return false;
    }
  }

  /** Resolves when the Lease is lost, gates are switched, or Workloads that could not be watched have to be selected otherwise. */
  async #untilChanged(held: AbortSignal, was: { watches: readonly Watch[]; select: boolean; gates: boolean }): Promise<void> {
    const { clock, log, gatedMs } = this.#options;
    let askedAt = this.#options.monotonic();
    while (!held.aborted && (gatedMs() !== undefined) === was.gates) {
      const now = was.watches.map((w) => w.problem).find((p) => p !== undefined);
      if (now !== this.#problem && now !== undefined) log.warn({ problem: now }, 'holds cannot be watched');
      this.#problem = now;
      if (now !== undefined && this.#options.monotonic() >= askedAt + ASK_AGAIN_MS) {
        askedAt = this.#options.monotonic();
        if ((await this.#canSelect()) !== was.select) return;
      }
      await sleep(clock, LOOK_MS, held);
    }
  }
}
