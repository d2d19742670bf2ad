import type { KubeObject } from '../api/object.js';
import { sleep, type Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { isAlreadyExists, isConflict, isNotFound } from './errors.js';
import { microTime } from './micro-time.js';
import type { KubePort } from './port.js';
import { RESOURCE } from './resources.js';

export interface LeaseOptions {
  client: Pick<KubePort, 'get' | 'create' | 'patch'>;
  namespace: string;
  name: string;
  /** Unique per process: the Pod name, or host name and a random part. */
  identity: string;
  clock: Clock;
  log: Log;
  /** 15 s, 10 s and 2 s when absent, as in Kubernetes' own controllers. */
  leaseDurationMs?: number;
  renewDeadlineMs?: number;
  retryPeriodMs?: number;
  random?: () => number;
  /** Milliseconds that never jump; `performance.now` when absent. A wall clock set forward would rob a live holder. */
  monotonic?: () => number;
}

export interface LeaseCallbacks {
  /** We hold the lease now; the signal aborts when it is lost or about to be given back. */
  onStarted(held: AbortSignal): void;
  /** Somebody else may act now. The process must exit non-zero: what it still does cannot be called back. */
  onLost(reason: string): void;
  /** Work that has to end before a clean stop gives the lease away; bounded by the caller. */
  onStopping?(): Promise<void>;
}

interface LeaseSpec {
  holderIdentity?: string | null;
  leaseDurationSeconds?: number;
  acquireTime?: string;
  renewTime?: string;
  leaseTransitions?: number;
}

interface LeaseObject extends KubeObject {
  spec?: LeaseSpec;
}

/**
 * Leader election over a coordination.k8s.io/v1 Lease. A holder counts as dead when its record has not changed for the lease's duration
 * by our own clock; time stamps of other machines are never compared. Writes carry the resource version, so of two takers one loses.
 */
export class Lease {
  readonly #o: Required<LeaseOptions>;
  /** The record as last seen, and when it last changed by our clock. */
  #record: LeaseObject | undefined;
  #seenAt = 0;
  #renewedAt = -Infinity;

  constructor(options: LeaseOptions) {
    this.#o = {
      leaseDurationMs: 15_000,
      renewDeadlineMs: 10_000,
      retryPeriodMs: 2_000,
      random: Math.random,
      monotonic: () => performance.now(),
      ...options,
    };
    const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = this.#o;
    if (!(leaseDurationMs > renewDeadlineMs && renewDeadlineMs > 1.2 * retryPeriodMs))
      throw new RangeError(
        `lease ${this.#o.name}: duration ${leaseDurationMs} ms > renew deadline ${renewDeadlineMs} ms > 1.2 x retry period ${retryPeriodMs} ms does not hold`,
      );
  }

  /** True only while our last renewal is young enough; to be asked right before a write that two processes must not both do. */
  get held(): boolean {
    return this.#o.monotonic() - this.#renewedAt < this.#o.renewDeadlineMs;
  }

  /** Waits for the lease, keeps it, and resolves when `signal` aborts (the lease is then released) or it is lost (then not). */
  async run(signal: AbortSignal, callbacks: LeaseCallbacks): Promise<void> {
    await this.#acquire(signal);
    if (signal.aborted) return this.#release();
    this.#o.log.info({ lease: this.#title, identity: this.#o.identity }, 'lease acquired');
    const held = new AbortController();
    callbacks.onStarted(held.signal);
    const lost = await this.#keep(signal);
    held.abort();
    if (lost !== undefined) {
      this.#renewedAt = -Infinity;
      this.#o.log.error({ lease: this.#title, reason: lost }, 'lease lost');
      return callbacks.onLost(lost);
    }
    await this.#stopWhileHeld(callbacks);
  }

  get #title(): string {
    return `${this.#o.namespace}/${this.#o.name}`;
  }

  async #acquire(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (await this.#tryOnce()) return;
      } catch (err) {
        this.#o.log.warn({ err, lease: this.#title }, 'cannot acquire the lease; trying again');
      }
      // Standbys that all saw the holder vanish must not write in step.
      await sleep(this.#o.clock, this.#o.retryPeriodMs * (1 + 0.2 * this.#o.random()), signal);
    }
  }

  /** Renews until `signal` aborts; gives the reason when the lease is lost. */
  async #keep(signal: AbortSignal): Promise<string | undefined> {
    for (;;) {
      let trouble = '';
      await sleep(this.#o.clock, Math.min(this.#o.retryPeriodMs, this.#untilDeadline()), signal);
      if (signal.aborted) return undefined;
      // After a pause of the whole process the deadline may have passed before the first try; the try still decides who holds it.
      try {
        if (!(await this.#tryOnce())) return `${this.#record?.spec?.holderIdentity ?? 'somebody else'} took lease ${this.#title}`;
      } catch (error) {
        trouble = error instanceof Error ? error.message : String(error);
        this.#o.log.warn({ err: error, lease: this.#title }, 'cannot renew the lease');
      }
      if (!this.held) return `lease ${this.#title} could not be renewed within ${this.#o.renewDeadlineMs} ms: ${trouble}`;
    }
  }

  #untilDeadline(): number {
    return Math.max(0, this.#renewedAt + this.#o.renewDeadlineMs - this.#o.monotonic());
  }

  async #stopWhileHeld(callbacks: LeaseCallbacks): Promise<void> {
    const keeping = new AbortController();
    const kept = this.#keep(keeping.signal);
    try {
      await callbacks.onStopping?.();
    } finally {
      keeping.abort();
      const lost = await kept;
      if (lost === undefined) await this.#release();
    }
  }

  /** One attempt to create, take or renew. False: somebody else holds it. */
  async #tryOnce(): Promise<boolean> {
    if (this.#record === undefined) await this.#read();
    if (this.#record === undefined) return this.#create();
    if (!this.#mayTake(this.#record)) {
      // A standby only reads; the change of the record is the sign of life.
      await this.#read();
      if (this.#record === undefined || !this.#mayTake(this.#record)) return false;
    }
    return this.#write(this.#record);
  }

  #mayTake({ spec }: LeaseObject): boolean {
    const holder = spec?.holderIdentity ?? '';
    if (holder === '' || holder === this.#o.identity) return true;
    const durationMs = (spec?.leaseDurationSeconds ?? 0) * 1000 || this.#o.leaseDurationMs;
    return this.#o.monotonic() - this.#seenAt >= durationMs;
  }

  async #read(): Promise<void> {
    const { client, namespace, name } = this.#o;
    try {
      this.#see(await client.get<LeaseObject>(RESOURCE.leases, { namespace, name }, this.#call()));
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#record = undefined;
    }
  }

  #see(record: LeaseObject): void {
    if (record.metadata.resourceVersion !== this.#record?.metadata.resourceVersion) this.#seenAt = this.#o.monotonic();
    this.#record = record;
  }

  async #create(): Promise<boolean> {
    const { client, namespace, name } = this.#o;
    const began = this.#o.monotonic();
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { namespace, name },
      spec: { ...this.#stamp(), acquireTime: this.#now(), leaseTransitions: 0 },
    };
    try {
      this.#own(await client.create<LeaseObject>(RESOURCE.leases, lease, this.#call()), began);
      return true;
    } catch (error) {
      if (isAlreadyExists(error)) return false;
      throw error;
    }
  }

  async #write(record: LeaseObject): Promise<boolean> {
    const { client, namespace, name, identity } = this.#o;
    const began = this.#o.monotonic();
    const ours = record.spec?.holderIdentity === identity;
    const taken = ours ? {} : { acquireTime: this.#now(), leaseTransitions: (record.spec?.leaseTransitions ?? 0) + 1 };
    // A merge patch with the version is as strict as a PUT and leaves fields alone that are newer than this program.
    const body = { metadata: { resourceVersion: record.metadata.resourceVersion }, spec: { ...this.#stamp(), ...taken } };
    try {
      this.#own(
        await client.patch<LeaseObject>(RESOURCE.leases, { namespace, name }, { type: 'merge', body }, this.#call()),
        began,
      );
      return true;
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
      await this.#read();
      // Our own earlier write may have arrived although its answer did not, or a person deleted the Lease: nobody else holds it, and the
      // next round goes on from what was read now.
      if (ours && (this.#record === undefined || this.#record.spec?.holderIdentity === identity)) throw error;
      return false;
    }
  }

  /** The lease counts from before the call: its answer may have been late. */
  #own(record: LeaseObject, began: number): void {
    this.#see(record);
    this.#renewedAt = began;
  }

  #stamp(): LeaseSpec {
    return {
      holderIdentity: this.#o.identity,
      leaseDurationSeconds: Math.ceil(this.#o.leaseDurationMs / 1000),
      renewTime: this.#now(),
    };
  }

  #now(): string {
    return microTime(this.#o.clock.now());
  }

  /** One hung call must leave time for a second try, and the last one must not outlive the deadline by much. */
  #call(): { timeoutMs: number } {
    const { renewDeadlineMs, retryPeriodMs } = this.#o;
    const left = this.#renewedAt === -Infinity ? renewDeadlineMs : this.#untilDeadline();
    return { timeoutMs: Math.max(retryPeriodMs / 2, Math.min(renewDeadlineMs / 2, left)) };
  }

  /** An empty holder lets the next one start at once instead of after the lease's duration. */
  async #release(): Promise<void> {
    const { client, namespace, name, identity, log } = this.#o;
    this.#renewedAt = -Infinity;
    if (this.#record?.spec?.holderIdentity !== identity) return;
    const body = {
      metadata: { resourceVersion: this.#record.metadata.resourceVersion },
      spec: { holderIdentity: '', leaseDurationSeconds: 1, renewTime: this.#now() },
    };
    try {
      await client.patch(RESOURCE.leases, { namespace, name }, { type: 'merge', body }, this.#call());
    } catch (err) {
      log.warn({ err, lease: this.#title }, 'cannot release the lease; the next holder has to wait until it expires');
    }
  }
}
