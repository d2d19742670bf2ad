import type { KubeObject } from '../api/object.js';
import { splitKey } from '../api/object.js';
import { gatedKindOf } from '../gangs/gated-kinds.js';
import type { GateView } from '../gangs/gates.js';
import { gateEnd, gateView, ungatePatch } from '../gangs/gates.js';
import { isConflict, isForbidden, isInvalid, isNotFound, isUnserved } from '../kube/errors.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE, apiVersionOf } from '../kube/resources.js';
import { WorkQueue } from '../kube/work-queue.js';
import { GRACE_MS, LONGEST_RETRY_MS, MAX_WAIT_MS } from './watchdog-watch.js';
import type { Watch, WatchdogOptions } from './watchdog-watch.js';

const NOTE = 'the time of its gate passed; the job is queued without waiting for its images';
/** A gate that may not be taken off is tried again after this time, ms. */
const REFUSED_MS = 30_000;

/** Ends holds without quota: takes our name off the list of gates of a job. */
export class GateWatch implements Watch {
  readonly #options: WatchdogOptions;
  readonly #workloads: Reflector<GateView | undefined>;
  readonly #queue: WorkQueue;
  /** Since when a gate is seen, by a clock that is never set. */
  readonly #since = new Map<string, number>();

  /** @param fieldSelector of the Workloads that can be gated, where the API server can select them */
  constructor(options: WatchdogOptions, fieldSelector: string | undefined) {
    const { client, clock, log, metrics } = options;
    this.#options = options;
    this.#workloads = new Reflector<GateView | undefined>({
      ...{ client, clock, log, metrics },
      resource: RESOURCE.workloads,
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
      project: gateView,
    });
    this.#queue = new WorkQueue({
      ...{ name: 'gates', concurrency: 2, longestRetryMs: LONGEST_RETRY_MS },
      ...{ clock, log, metrics, reconcile: (key) => this.#reconcile(key) },
    });
  }

  get problem(): string | undefined {
    return this.#workloads.problem;
  }

  start(): void {
    this.#workloads.onChange((key, now, before) => {
      if (now !== undefined || before !== undefined) this.#queue.add(key);
    });
    this.#workloads.start();
    this.#queue.start();
  }

  async stop(): Promise<void> {
    await this.#workloads.stop();
    await this.#queue.stop();
  }

  async #reconcile(key: string): Promise<{ after?: number }> {
    const { clock, monotonic, gatedMs } = this.#options;
    const gate = this.#workloads.get(key);
    const limit = gatedMs();
    if (gate === undefined || limit === undefined) {
      this.#since.delete(key);
      return {};
    }
    const seenAt = this.#since.get(key) ?? monotonic();
    this.#since.set(key, seenAt);
    const end = gateEnd(gate, limit);
    const left = GRACE_MS + Math.min(end - clock.now(), end - gate.createdAt - (monotonic() - seenAt));
    return left > 0 ? { after: Math.min(left, MAX_WAIT_MS) } : this.#remove(key, gate);
  }

  async #remove(key: string, { job }: GateView): Promise<{ after?: number }> {
    const { client, admission, events, log } = this.#options;
    const kind = gatedKindOf(job);
    if (kind === undefined) return {};
    const name = { namespace: splitKey(key).namespace ?? '', name: job.name };
    try {
      const ops = ungatePatch(await client.get<KubeObject>(kind, name), job.uid);
      if (ops === undefined) return {};
      await client.patch(kind, name, { type: 'json', ops });
    } catch (err) {
      if (isForbidden(err)) log.warn({ err, workload: key }, 'a gate whose time is over may not be taken off its job');
      else if (isUnserved(err)) log.warn({ err, workload: key }, 'a gate whose time is over stands on a job that is not served');
      else if (!isNotFound(err) && !isConflict(err) && !isInvalid(err)) throw err;
      return { after: REFUSED_MS };
    }
    admission.released('GateExpired');
    const regarding = { apiVersion: apiVersionOf(kind), kind: kind.kind, ...name, uid: job.uid };
    events.event({ regarding, type: 'Warning', reason: 'GateExpired', action: 'EndHold', note: NOTE });
    log.info({ workload: key, job }, 'gate taken off');
    return {};
  }
}
