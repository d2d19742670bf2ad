import { at } from '../api/json.js';
import { CHECK_CONTROLLER } from '../api/names.js';
import type { HoldEnd, HoldView } from '../gangs/hold.js';
import { expireHold, heldChecks, holdView } from '../gangs/hold.js';
import { splitKey } from '../api/object.js';
import type { WatchPort } from '../kube/client.js';
import type { EventRecorder } from '../kube/events.js';
import { KubeError, isConflict, isInvalid, isNotFound } from '../kube/errors.js';
import { Lease } from '../kube/lease.js';
import type { KubePort, PatchOp } from '../kube/port.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE, apiVersionOf } from '../kube/resources.js';
import { WorkQueue } from '../kube/work-queue.js';
import type { Clock } from '../observe/clock.js';
import { sleep } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { AdmissionMetrics } from './metrics.js';

export interface WatchdogOptions {
  client: KubePort & WatchPort;
  lease: { namespace: string; name: string; identity: string };
  unstampedHoldMs: () => number;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  admission: AdmissionMetrics;
  events: Pick<EventRecorder, 'event'>;
}

interface Held {
  view: HoldView;
  uid: string;
  resourceVersion: string;
}

/** A Workload's deadline is compared with the wall clock at least so often, since that may jump. */
const MAX_WAIT_MS = 60_000;
/** Only Workloads with reserved quota can be held; the many that wait without need not be sent to this process. */
const RESERVED = 'status.admission.clusterQueue!=';
const RETRY_LEASE_MS = 2_000;
/**
 * A controller that lives ends a hold at its deadline, and says more than we can. Only what it leaves undone is ours: each release
 * by the watchdog is an alert.
 */
const GRACE_MS = 3_000;

const MESSAGES = {
  DeadlineExceeded: 'the deadline of the hold passed; the gang starts without waiting for its images',
  Unstamped: 'nobody vouched for this hold in time; the gang starts without waiting for its images',
} as const;

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

  async #watch(held: AbortSignal): Promise<void> {
    const { client, clock, log, metrics } = this.#options;
    const shared = { client, clock, log, metrics };
    const checks = new Reflector<boolean>({
      ...shared,
      resource: RESOURCE.admissionChecks,
      project: (raw) => at(raw, 'spec')['controllerName'] === CHECK_CONTROLLER,
    });
    const names = new Set<string>();
    const workloads = new Reflector<Held>({
      ...shared,
      resource: RESOURCE.workloads,
      ...((await this.#canSelect()) ? { fieldSelector: RESERVED } : {}),
      project: (raw) => ({
        view: holdView(raw),
        uid: raw.metadata.uid ?? '',
        resourceVersion: raw.metadata.resourceVersion ?? '',
      }),
    });
    const keys = new Set<string>();
    const queue = new WorkQueue({
      name: 'watchdog',
      concurrency: 4,
      clock,
      log,
      metrics,
      reconcile: (key) => this.#reconcile(key, workloads, names),
    });
    workloads.onChange((key, now) => {
      if (now === undefined) keys.delete(key);
      else keys.add(key);
      queue.add(key);
    });
    checks.onChange((name, ours) => {
      if (ours === true) names.add(name);
      else names.delete(name);
      for (const key of keys) queue.add(key);
    });
    checks.start();
    workloads.start();
    queue.start();
    await this.#untilAborted(held, () => workloads.problem ?? checks.problem);
    await Promise.all([checks.stop(), workloads.stop()]);
    await queue.stop();
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

  async #untilAborted(held: AbortSignal, problem: () => string | undefined): Promise<void> {
    const { clock, log } = this.#options;
    while (!held.aborted) {
      const now = problem();
      if (now !== this.#problem && now !== undefined) log.warn({ problem: now }, 'holds cannot be watched');
      this.#problem = now;
      await sleep(clock, 1_000, held);
    }
  }

  async #reconcile(key: string, workloads: Reflector<Held>, names: ReadonlySet<string>): Promise<{ after?: number }> {
    const { clock, unstampedHoldMs } = this.#options;
    const held = workloads.get(key);
    const now = clock.now() - GRACE_MS;
    const end = held === undefined ? undefined : expireHold(held.view, names, now, { unstampedHoldMs: unstampedHoldMs() });
    if (held === undefined || end === undefined) return {};
    if ('waitUntil' in end) return { after: Math.min(end.waitUntil - now, MAX_WAIT_MS) };
    await this.#release(key, held, releasePatch(held, names, end.release, clock.now()), end.release);
    return {};
  }

  async #release(
    key: string,
    held: Held,
    ops: PatchOp[],
    reason: Extract<HoldEnd, { release: string }>['release'],
  ): Promise<void> {
    const { client, admission, events, log } = this.#options;
    try {
      await client.patch(RESOURCE.workloads, splitKey(key), { type: 'json', ops }, { subresource: 'status' });
      admission.released(reason);
      const regarding = {
        apiVersion: apiVersionOf(RESOURCE.workloads),
        kind: RESOURCE.workloads.kind,
        ...splitKey(key),
        uid: held.uid,
      };
      events.event({ regarding, type: 'Warning', reason, action: 'EndHold', note: MESSAGES[reason] });
      log.info({ workload: key, reason, deadline: held.view.deadline }, 'hold ended');
    } catch (err) {
      // The Workload moved on; its next event brings the key back with what it is now.
      if (!isNotFound(err) && !isConflict(err) && !isInvalid(err)) throw err;
      log.debug({ err, workload: key }, 'hold not ended, the Workload changed');
    }
  }
}

/** Sets the held checks Ready, only on the very version that was judged. Exported for its test. */
export function releasePatch(
  held: Pick<Held, 'view' | 'resourceVersion'>,
  names: ReadonlySet<string>,
  reason: keyof typeof MESSAGES,
  now: number,
): PatchOp[] {
  const ours = new Set(heldChecks(held.view, names));
  const changes = held.view.checks.flatMap(({ name }, i): PatchOp[] => {
    if (!ours.has(name)) return [];
    const at = `/status/admissionChecks/${i}`;
    return [
      { op: 'replace', path: `${at}/state`, value: 'Ready' },
      { op: 'add', path: `${at}/message`, value: `${reason}: ${MESSAGES[reason]}` },
      { op: 'add', path: `${at}/lastTransitionTime`, value: new Date(now).toISOString().replace(/\.\d+Z$/, 'Z') },
    ];
  });
  return [{ op: 'test', path: '/metadata/resourceVersion', value: held.resourceVersion }, ...changes];
}
