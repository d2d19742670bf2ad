import type { KubeObject } from '../api/object.js';
import { splitKey } from '../api/object.js';
import { gatedKindOf } from '../gangs/gated-kinds.js';
import type { GateView } from '../gangs/gates.js';
import { COPY_MS, gateEnd, gateView, nextUngate } from '../gangs/gates.js';
import { isConflict, isForbidden, isInvalid, isNotFound, isUnserved } from '../kube/errors.js';
import { Reflector } from '../kube/reflector.js';
import type { Resource } from '../kube/resources.js';
import { RESOURCE, apiVersionOf } from '../kube/resources.js';
import { WorkQueue } from '../kube/work-queue.js';
import { GRACE_MS, LONGEST_RETRY_MS, MAX_WAIT_MS } from './watchdog-watch.js';
import type { Watch, WatchdogOptions } from './watchdog-watch.js';

const NOTE = 'the time of its gate passed; the job is queued without waiting for its images';
/** A gate that may not be taken off is tried again after this time, ms. */
const REFUSED_MS = 30_000;

/** Ends holds without quota: takes our name off the lists of gates of a job and its Workload. */
export class GateWatch implements Watch {
  readonly #options: WatchdogOptions;
  readonly #workloads: Reflector<GateView | undefined>;
  readonly #queue: WorkQueue;
  /** Since when a gate is seen, by a clock that is never set. */
  readonly #since = new Map<string, number>();
  /** Jobs that are without our name while their Workloads still have it: since when, by the same clock, and whether that was told. */
  readonly #off = new Map<string, { uid: string; since: number; told: boolean }>();

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
      this.#off.delete(key);
      return {};
    }
    const seenAt = this.#since.get(key) ?? monotonic();
    this.#since.set(key, seenAt);
    const end = gateEnd(gate, limit);
    const left = GRACE_MS + Math.min(end - clock.now(), end - gate.createdAt - (monotonic() - seenAt));
    return left > 0 ? { after: Math.min(left, MAX_WAIT_MS) } : this.#remove(key, gate);
  }

  async #remove(key: string, gate: GateView): Promise<{ after?: number }> {
    const { log } = this.#options;
    try {
      return await this.#step(key, gate);
    } catch (err) {
      if (isForbidden(err)) log.warn({ err, workload: key }, 'a gate whose time is over may not be taken off');
      else if (isUnserved(err)) log.warn({ err, workload: key }, 'a gate whose time is over stands on a job that is not served');
      else if (!isNotFound(err) && !isConflict(err) && !isInvalid(err)) throw err;
      return { after: REFUSED_MS };
    }
  }

  async #step(key: string, gate: GateView): Promise<{ after?: number }> {
    const { client, monotonic } = this.#options;
    const places = placesOf(key, gate);
    if (places === undefined) return {};
    const known = this.#off.get(key);
    const off = known?.uid === gate.uid ? known : undefined;
    const read = places.job === undefined ? undefined : await client.get<KubeObject>(places.job.resource, places.job.name);
    const next = nextUngate(gate, read, off?.since, monotonic());
    if (next === undefined) return {};
    const goes = (told: boolean) => this.#off.set(key, { uid: gate.uid, since: monotonic(), told });
    if (next.on === 'copy') {
      if (off === undefined) goes(false);
      return { after: next.after };
    }
    const { resource, name } = places[next.on] ?? places.workload;
    await client.patch(resource, name, { type: 'json', ops: next.ops });
    goes(true);
    if (off?.told !== true) this.#tell(key, gate, places);
    return { after: COPY_MS };
  }

  #tell(key: string, { uid, job }: GateView, places: Places): void {
    const { admission, events, log } = this.#options;
    admission.released('GateExpired');
    const { resource, name } = places.job ?? places.workload;
    const regarding = { apiVersion: apiVersionOf(resource), kind: resource.kind, ...name, uid: job?.uid ?? uid };
    events.event({ regarding, type: 'Warning', reason: 'GateExpired', action: 'EndHold', note: NOTE });
    log.info({ workload: key, job }, 'gate taken off');
  }
}

interface Place {
  resource: Resource;
  name: { namespace: string; name: string };
}

/** Where our name stands. */
interface Places {
  workload: Place;
  /** Absent where the Workload has no job. */
  job?: Place;
}

/** Undefined where the gate of a job of this kind is not ours to take off. */
function placesOf(key: string, { job }: GateView): Places | undefined {
  const { namespace = '', name } = splitKey(key);
  const workload = { resource: RESOURCE.workloads, name: { namespace, name } };
  if (job === undefined) return { workload };
  const kind = gatedKindOf(job);
  return kind === undefined ? undefined : { workload, job: { resource: kind, name: { namespace, name: job.name } } };
}
