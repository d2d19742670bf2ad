import type { Raw } from '../../cluster/client.js';
import { wait, type Clock } from './clock.js';
import { behaviourOf, wantedBy, type Wanted } from './container.js';
import type { Knobs } from './knobs.js';
import { parse, type Reference } from './reference.js';
import { PullError, type Credential } from './registry.js';
import { conditionsOf, phaseOf, timestamp, waiting, type ContainerSpec, type ContainerStatus } from './status.js';
import type { ImageStore, StoredImage } from './store.js';

/** What a Pod needs of its node. */
export interface Host {
  readonly address: string;
  readonly clock: Clock;
  readonly store: ImageStore;
  readonly timing: Timing;
  knobs(): Knobs;
  /** Resolves while the kubelet is alive; waits while it is silent. */
  awake(): Promise<void>;
  credentials(pod: Raw, reference: Reference): Promise<Credential[]>;
  writeStatus(pod: Raw, status: Record<string, unknown>): Promise<Raw | undefined>;
  /** Removes the Pod's object for good. */
  remove(pod: Raw): Promise<void>;
}

/** Milliseconds; the defaults in `main.ts` are what real nodes showed. */
export interface Timing {
  sandbox: number;
  start: number;
  /** How long ErrImagePull stands before ImagePullBackOff. */
  sync: number;
  /** Before the second attempt; doubled each time, at most 300 s. */
  backOff: number;
}

const MAX_BACK_OFF_MS = 300_000;
const PROBE_MS = 1_000;

/** Waiting reason and message of a container that cannot start yet. */
class NotStartable extends Error {
  readonly reason: string;
  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The life of one Pod on a fake node: from the first sight of it, bound, to the removal of its object. */
export class PodRunner {
  readonly #host: Host;
  readonly #ip: string;
  readonly #life = new AbortController();
  readonly #statuses = new Map<string, ContainerStatus>();
  readonly #startTime = timestamp();
  #pod: Raw;
  #sandbox = false;
  #initialized = false;
  #wake = (): void => undefined;
  #reports: Promise<void> = Promise.resolve();
  #vanished = false;

  constructor(pod: Raw, host: Host, ip: string) {
    this.#pod = pod;
    this.#host = host;
    this.#ip = ip;
  }

  /** A newer version of the object: a patched image is tried at once, a deletion ends the containers. */
  update(pod: Raw): void {
    this.#pod = pod;
    if (pod.metadata.deletionTimestamp) this.#life.abort(new Error('the Pod is being deleted'));
    else this.#wake();
  }

  /** The object is gone, or the node is: nothing more is written. */
  vanish(): void {
    this.#vanished = true;
    this.#life.abort(new Error('the Pod is gone'));
  }

  async run(): Promise<void> {
    if (this.#pod.metadata.deletionTimestamp) return this.#end();
    try {
      await this.#live();
    } catch (error) {
      if (!this.#life.signal.aborted) throw error;
    }
    // A Pod that has run to its end stays until somebody deletes it.
    if (!this.#life.signal.aborted)
      await new Promise((resolve) => this.#life.signal.addEventListener('abort', resolve, { once: true }));
    await this.#end();
  }

  async #live(): Promise<void> {
    const spec = this.#pod['spec'];
    const inits: ContainerSpec[] = spec.initContainers ?? [];
    const containers: ContainerSpec[] = spec.containers;
    for (const each of [...inits, ...containers])
      this.#statuses.set(each.name, waiting(each, inits.length > 0 ? 'PodInitializing' : 'ContainerCreating'));
    await this.#report();
    await this.#pause(this.#host.timing.sandbox);
    this.#sandbox = true;
    for (const each of inits) {
      if (each.restartPolicy === 'Always') await this.#start(each.name, true);
      else if ((await this.#toItsEnd(each.name, true)) !== 0) return;
    }
    this.#initialized = true;
    await Promise.all(containers.map((each) => this.#toItsEnd(each.name, false)));
  }

  async #end(): Promise<void> {
    if (this.#vanished) return;
    for (const [name, status] of this.#statuses) if (status.state.running) this.#statuses.set(name, terminated(status, 0));
    await this.#report();
    await this.#host.awake();
    await this.#host.remove(this.#pod);
  }

  /** Runs a container as often as the restart policy wants; resolves with the last exit code. */
  async #toItsEnd(name: string, isInit: boolean): Promise<number> {
    for (let restarts = 0; ; restarts++) {
      await this.#start(name, isInit);
      const { seconds, exitCode } = behaviourOf(this.#spec(name), this.#pod.metadata.annotations);
      // An init container that nothing is known of is taken to be done.
      await this.#pause(seconds === undefined ? (isInit ? 0 : Infinity) : seconds * 1000);
      this.#change(name, (status) => terminated(status, exitCode));
      await this.#report();
      const policy: string = this.#pod['spec'].restartPolicy;
      if (exitCode === 0 && (isInit || policy !== 'Always')) return 0;
      if (policy === 'Never') return exitCode;
      await this.#crashLoop(name, restarts);
    }
  }

  async #crashLoop(name: string, restarts: number): Promise<void> {
    const delay = Math.min(this.#host.timing.backOff * 2 ** restarts, MAX_BACK_OFF_MS);
    this.#change(name, (status) => ({ ...status, lastState: status.state, restartCount: status.restartCount + 1 }));
    if (restarts > 0) {
      const message = `back-off ${delay / 1000}s restarting failed container=${name}`;
      this.#change(name, (status) => ({ ...status, state: { waiting: { reason: 'CrashLoopBackOff', message } } }));
      await this.#report();
      await this.#pause(delay);
    }
  }

  /** Images there, container running, and past its startup probe. */
  async #start(name: string, isInit: boolean): Promise<void> {
    const image = await this.#images(name);
    await this.#pause(this.#host.timing.start);
    const spec = this.#spec(name);
    const tag = image?.names.find((each) => !each.includes('@'));
    const begun = {
      image: tag ?? image?.names[0] ?? spec.image,
      imageID: image?.names[0] ?? spec.image,
      state: { running: { startedAt: timestamp() } },
      containerID: `containerd://${crypto.randomUUID().replaceAll('-', '').repeat(2)}`,
    };
    this.#change(name, (status) => ({
      ...status,
      ...begun,
      started: !spec.startupProbe,
      ready: !isInit && !spec.startupProbe && !spec.readinessProbe,
    }));
    await this.#report();
    if (!spec.startupProbe && !spec.readinessProbe) return;
    // Where a lying node has mounted nothing, a probe that looks into the mount never passes.
    if (spec.startupProbe && image === undefined) await this.#pause(Infinity);
    await this.#pause(PROBE_MS + (spec.readinessProbe?.initialDelaySeconds ?? 0) * 1000);
    this.#change(name, (status) => ({ ...status, started: true, ready: !isInit }));
    await this.#report();
  }

  /** Sees to all images of a container, with the kubelet's back-off. Resolves with the container's own; undefined on a lying node. */
  async #images(name: string): Promise<StoredImage | undefined> {
    for (let failures = 0; ; failures++) {
      const wanted = wantedBy(this.#spec(name), this.#pod['spec'].volumes);
      let last: StoredImage | undefined;
      try {
        if (this.#host.knobs().lie) return undefined;
        for (const each of wanted) last = await this.#image(each);
        return last;
      } catch (error) {
        if (!(error instanceof NotStartable)) throw error;
        await this.#refuse(name, error, failures);
      }
    }
  }

  async #refuse(name: string, error: NotStartable, failures: number): Promise<void> {
    const set = async (reason: string, message: string): Promise<void> => {
      this.#change(name, (status) => ({ ...status, image: this.#spec(name).image, state: { waiting: { reason, message } } }));
      await this.#report();
    };
    const before = JSON.stringify(wantedBy(this.#spec(name), this.#pod['spec'].volumes));
    const changed = (): boolean => JSON.stringify(wantedBy(this.#spec(name), this.#pod['spec'].volumes)) !== before;
    const { sync, backOff } = this.#host.timing;
    await set(error.reason, error.message);
    await this.#pauseUnless(changed, sync);
    if (changed() || error.reason !== 'ErrImagePull') return;
    const { reference } = error as NotStartable & { reference?: string };
    await set('ImagePullBackOff', `Back-off pulling image "${reference}": ErrImagePull: ${error.message}`);
    await this.#pauseUnless(changed, Math.min(backOff * 2 ** failures, MAX_BACK_OFF_MS));
  }

  async #image({ reference: text, policy }: Wanted): Promise<StoredImage> {
    const reference = parse(text);
    if (!reference) {
      throw new NotStartable(
        'InvalidImageName',
        `Failed to apply default image tag "${text}": couldn't parse image name "${text}": invalid reference format`,
      );
    }
    const present = this.#host.store.find(reference);
    if (present && policy !== 'Always') return present;
    if (policy === 'Never')
      throw new NotStartable('ErrImageNeverPull', `Container image "${text}" is not present with pull policy of Never`);
    try {
      const credentials = await this.#host.credentials(this.#pod, reference);
      // The pull is the node's: it goes on when this Pod is deleted meanwhile.
      return await this.#orAborted(this.#host.store.pull(reference, credentials));
    } catch (error) {
      if (!(error instanceof PullError)) throw error;
      throw Object.assign(new NotStartable('ErrImagePull', error.message), { reference: text });
    }
  }

  #report(): Promise<void> {
    this.#reports = this.#reports.then(async () => {
      await this.#host.awake();
      if (this.#vanished) return;
      const written = await this.#host.writeStatus(this.#pod, this.#status());
      if (written) this.#pod = { ...this.#pod, status: written['status'] };
      else this.vanish();
    });
    return this.#reports;
  }

  #status(): Record<string, unknown> {
    const of = (specs: ContainerSpec[] = []): ContainerStatus[] => specs.flatMap(({ name }) => this.#statuses.get(name) ?? []);
    const { spec } = this.#pod as Raw & {
      spec: { initContainers?: ContainerSpec[]; containers: ContainerSpec[]; restartPolicy: string };
    };
    const [inits, containers] = [of(spec.initContainers), of(spec.containers)];
    const phase = phaseOf(spec.restartPolicy, inits, containers);
    const completed = phase === 'Succeeded';
    const ready = containers.length > 0 && containers.every((status) => status.ready);
    return {
      phase,
      startTime: this.#startTime,
      hostIP: this.#host.address,
      hostIPs: [{ ip: this.#host.address }],
      ...(this.#sandbox && { podIP: this.#ip, podIPs: [{ ip: this.#ip }] }),
      conditions: conditionsOf(this.#pod, {
        sandbox: this.#sandbox && !completed,
        initialized: this.#initialized,
        ready,
        completed,
      }),
      containerStatuses: containers,
      ...(inits.length > 0 && { initContainerStatuses: inits }),
    };
  }

  #spec(name: string): ContainerSpec {
    const { initContainers = [], containers } = this.#pod['spec'] as {
      initContainers?: ContainerSpec[];
      containers: ContainerSpec[];
    };
    const found = [...initContainers, ...containers].find((spec) => spec.name === name);
    if (!found) throw new Error(`container ${name} is not in Pod ${this.#pod.metadata.name}`);
    return found;
  }

  #change(name: string, edit: (status: ContainerStatus) => ContainerStatus): void {
    const status = this.#statuses.get(name);
    if (status) this.#statuses.set(name, edit(status));
  }

  #pause(ms: number): Promise<void> {
    return ms === Infinity ? this.#orAborted(new Promise<never>(() => undefined)) : wait(this.#host.clock, ms, this.#life.signal);
  }

  /** Waits, but not on when a new version of the object makes `done` true. */
  async #pauseUnless(done: () => boolean, ms: number): Promise<void> {
    const woken = new Promise<void>((resolve) => (this.#wake = () => (done() ? resolve() : undefined)));
    await Promise.race([woken, this.#pause(ms)]);
  }

  #orAborted<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#life;
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(signal.reason as Error);
      if (signal.aborted) abort();
      signal.addEventListener('abort', abort, { once: true });
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    });
  }
}

function terminated(status: ContainerStatus, exitCode: number): ContainerStatus {
  const startedAt = status.state.running?.startedAt ?? timestamp();
  const state = {
    exitCode,
    reason: exitCode === 0 ? 'Completed' : 'Error',
    startedAt,
    finishedAt: timestamp(),
    containerID: status.containerID ?? '',
  };
  return { ...status, ready: false, started: false, state: { terminated: state } };
}
