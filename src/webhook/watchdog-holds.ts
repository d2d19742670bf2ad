import { at } from '../api/json.js';
import { CHECK_CONTROLLER } from '../api/names.js';
import type { HoldEnd, HoldView } from '../gangs/hold.js';
import { expireHold, heldChecks, holdView } from '../gangs/hold.js';
import { splitKey } from '../api/object.js';
import { isConflict, isInvalid, isNotFound } from '../kube/errors.js';
import type { PatchOp } from '../kube/port.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE, apiVersionOf } from '../kube/resources.js';
import { WorkQueue } from '../kube/work-queue.js';
import { GRACE_MS, LONGEST_RETRY_MS, MAX_WAIT_MS } from './watchdog-watch.js';
import type { Watch, WatchdogOptions } from './watchdog-watch.js';

interface Held {
  view: HoldView;
  uid: string;
  resourceVersion: string;
}

const MESSAGES = {
  DeadlineExceeded: 'the deadline of the hold passed; the gang starts without waiting for its images',
  Unstamped: 'nobody vouched for this hold in time; the gang starts without waiting for its images',
} as const;

/** Ends holds by checks, with quota reserved: sets the check Ready. */
export class HoldWatch implements Watch {
  readonly #options: WatchdogOptions;
  readonly #checks: Reflector<boolean>;
  readonly #workloads: Reflector<Held>;
  readonly #queue: WorkQueue;
  readonly #names = new Set<string>();
  readonly #keys = new Set<string>();
  /** Since when the present hold of a Workload is seen, by a clock that is never set. */
  readonly #since = new Map<string, { reservedAt: number; at: number }>();

  /** @param fieldSelector of the Workloads that can be held, where the API server can select them */
  constructor(options: WatchdogOptions, fieldSelector: string | undefined) {
    const { client, clock, log, metrics } = options;
    const shared = { client, clock, log, metrics };
    this.#options = options;
    this.#checks = new Reflector<boolean>({
      ...shared,
      resource: RESOURCE.admissionChecks,
      project: (raw) => at(raw, 'spec')['controllerName'] === CHECK_CONTROLLER,
    });
    this.#workloads = new Reflector<Held>({
      ...shared,
      resource: RESOURCE.workloads,
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
      project: (raw) => ({
        view: holdView(raw),
        uid: raw.metadata.uid ?? '',
        resourceVersion: raw.metadata.resourceVersion ?? '',
      }),
    });
    this.#queue = new WorkQueue({
      name: 'watchdog',
      concurrency: 4,
      longestRetryMs: LONGEST_RETRY_MS,
      clock,
      log,
      metrics,
      reconcile: (key) => this.#reconcile(key),
    });
  }

  get problem(): string | undefined {
    return this.#workloads.problem ?? this.#checks.problem;
  }

  start(): void {
    this.#workloads.onChange((key, now) => {
      if (now === undefined) this.#keys.delete(key);
      else this.#keys.add(key);
      this.#queue.add(key);
    });
    this.#checks.onChange((name, ours) => {
      if (ours === true) this.#names.add(name);
      else this.#names.delete(name);
      for (const key of this.#keys) this.#queue.add(key);
    });
    this.#checks.start();
    this.#workloads.start();
    this.#queue.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#checks.stop(), this.#workloads.stop()]);
    await this.#queue.stop();
  }

  async #reconcile(key: string): Promise<{ after?: number }> {
    const { clock, unstampedHoldMs } = this.#options;
    const held = this.#workloads.get(key);
    const now = clock.now() - GRACE_MS;
    const limits = { unstampedHoldMs: unstampedHoldMs(), seenForMs: this.#seenForMs(key, held) - GRACE_MS };
    const end = held === undefined ? undefined : expireHold(held.view, this.#names, now, limits);
    if (held === undefined || end === undefined) return {};
    if ('waitUntil' in end) return { after: Math.min(end.waitUntil - now, MAX_WAIT_MS) };
    await this.#release(key, held, releasePatch(held, this.#names, end.release, clock.now()), end.release);
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

  #seenForMs(key: string, held: Held | undefined): number {
    const now = this.#options.monotonic();
    if (held === undefined || heldChecks(held.view, this.#names).length === 0) {
      this.#since.delete(key);
      return 0;
    }
    const reservedAt = held.view.reservedAt ?? 0;
    const known = this.#since.get(key);
    if (known?.reservedAt === reservedAt) return now - known.at;
    this.#since.set(key, { reservedAt, at: now });
    return 0;
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
