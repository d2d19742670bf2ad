import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import { notYet, sleep, until } from '../../cluster/until.js';
import { CHECK, knob, NS, PREWARM, PULLER, QUEUE, SYSTEM, WORKLOAD } from '../../integration/controller/ground.js';
import { attempt, pushBehindDoor, shortGang, workloads, type GangOptions, type Ground } from './ground.js';
import type { Replicas } from './processes.js';
import type { Recorder } from './recorder.js';
import type { ChaosEvent, EventKind } from './schedule.js';

/** Repositories of one seed: fewer than gangs, so that gangs share images. */
const REPOSITORIES = 4;
const MANAGER = 'kube-controller-manager';
const ADMISSION_CHECK = 'kueue.x-k8s.io/v1beta2/AdmissionCheck';

interface Fault {
  what: string;
  /** Puts it right. */
  heal: () => unknown;
}

/** False: there was nothing to do it to. */
type Act = (pick: number) => boolean | Fault | Promise<boolean | Fault>;

export interface Hands {
  ground: Ground;
  recorder: Recorder;
  controllers: Replicas;
  webhooks: Replicas;
  seed: number;
}

/** Does the events of a schedule to a cluster, and puts each fault right when its time is over. */
export class Driver {
  readonly #hands: Hands;
  readonly #acts: Readonly<Record<EventKind, Act>>;
  /** How often each kind of event found something to do. */
  readonly done = new Map<EventKind, number>();
  readonly gangs: string[] = [];
  #heals: (Fault & { at: number })[] = [];
  #step = 0;
  #moves = 0;
  #urgent = 0;

  constructor(hands: Hands) {
    this.#hands = hands;
    this.#acts = this.#table();
  }

  async run(events: readonly ChaosEvent[]): Promise<void> {
    const { recorder } = this.#hands;
    for (let i = 0; i < REPOSITORIES; i++) await pushBehindDoor(this.#hands.ground, this.#repository(i));
    for (const event of events) {
      await sleep(event.pauseMs);
      this.#step++;
      for (const due of this.#heals.filter((h) => h.at <= this.#step)) await this.#put(due);
      const heal = await this.#acts[event.kind](event.pick);
      recorder.note(
        `${this.#step} ${event.kind}: ${typeof heal === 'object' ? heal.what : heal ? 'done' : 'nothing to do it to'}`,
      );
      if (heal === false) continue;
      this.done.set(event.kind, (this.done.get(event.kind) ?? 0) + 1);
      if (typeof heal === 'object') this.#heals.push({ at: this.#step + event.lasts, ...heal });
    }
  }

  /** Puts right whatever is still wrong. */
  async healAll(): Promise<void> {
    for (const heal of this.#heals) await this.#put(heal);
    this.#hands.ground.configure();
  }

  async #put(entry: Fault & { at: number }): Promise<void> {
    this.#heals = this.#heals.filter((h) => h !== entry);
    await entry.heal();
    this.#hands.recorder.note(`healed: ${entry.what}`);
  }

  #table(): Readonly<Record<EventKind, Act>> {
    const { ground, controllers, webhooks } = this.#hands;
    const { client } = ground.cluster;
    const job = (name: string): [string, string] => ['batch/v1/Job', `${NS}/${name}`];
    const pullers = { namespace: SYSTEM, labelSelector: PULLER };
    return {
      'create-held': (pick) => this.#create(pick, { optedIn: true, hold: '20s' }),
      'create-short-hold': (pick) => this.#create(pick, { optedIn: true, hold: '1s' }),
      'create-unheld': (pick) => this.#create(pick, { optedIn: true }),
      'create-not-opted-in': (pick) => this.#create(pick, { optedIn: false }),
      preempt: (pick) => this.#preempt(pick),
      'delete-gang': (pick) => this.#withGang(pick, (name) => client.delete(...job(name))),
      deactivate: (pick) => this.#deactivate(pick, false),
      requeue: (pick) => this.#deactivate(pick, true),
      'opt-out': (pick) =>
        this.#withGang(pick, (name) =>
          client.patch(...job(name), { metadata: { annotations: { 'harbinger.dev/prewarm': 'false' } } }),
        ),
      'move-tag': (pick) => this.#moveTag(pick),
      'deny-image': (pick) => {
        const repository = this.#repository(pick * REPOSITORIES);
        ground.door.deny(repository);
        return { what: `${repository} denied`, heal: () => ground.door.allow(repository) };
      },
      'registry-down': () => {
        ground.door.shut();
        return { what: 'registry down', heal: () => ground.door.reopen() };
      },
      'node-not-ready': (pick) => this.#knob(pick, 'notReady', 'true'),
      'pulls-hang': (pick) => this.#knob(pick, 'hang', 'true'),
      'pulls-fail': (pick) => this.#knob(pick, 'pullFails', 'read tcp 10.0.0.1:443: connection reset by peer'),
      'disk-full': (pick) => this.#knob(pick, 'diskFull', 'true'),
      'node-gone': (pick) => this.#nodeGone(pick),
      'kill-controller': (pick) => this.#hit(controllers, pick, 'killed'),
      'freeze-controller': (pick) => this.#hit(controllers, pick, 'frozen'),
      'kill-webhook': (pick) => this.#hit(webhooks, pick, 'killed'),
      'freeze-webhook': (pick) => this.#hit(webhooks, pick, 'frozen'),
      'restart-api-server': async () => {
        await ground.cluster.restartApiServer();
        return true;
      },
      // Nobody makes Pods of Jobs and DaemonSets, and nobody collects those that are left.
      'freeze-controller-manager': async () => {
        await ground.cluster.pause(MANAGER);
        return { what: `${MANAGER} frozen`, heal: () => ground.cluster.resume(MANAGER) };
      },
      'delete-daemonset': (pick) => this.#deleteOne(pick, 'apps/v1/DaemonSet', pullers),
      'delete-puller': (pick) => this.#deleteOne(pick, 'v1/Pod', pullers),
      'delete-prewarm': (pick) => this.#deleteOne(pick, PREWARM, { namespace: NS }),
      'delete-check': () => this.#deleteCheck(),
      'mode-observe': () => this.#mode('Observe'),
      'mode-off': () => this.#mode('Off'),
    };
  }

  #mode(mode: string): Fault {
    this.#hands.ground.configure({ mode });
    return { what: `mode ${mode}`, heal: () => this.#hands.ground.configure() };
  }

  async #moveTag(pick: number): Promise<boolean> {
    const seed = `${this.#hands.seed} moved ${++this.#moves}`;
    await pushBehindDoor(this.#hands.ground, this.#repository(pick * REPOSITORIES), seed);
    return true;
  }

  #repository(pick: number): string {
    return `seed${this.#hands.seed}/r${Math.floor(pick)}`;
  }

  async #create(pick: number, options: Pick<GangOptions, 'hold' | 'optedIn'>): Promise<boolean> {
    const { ground, seed } = this.#hands;
    const name = `s${seed}-g${this.gangs.length + 1}`;
    const image = `${ground.door.host}/${this.#repository(pick * REPOSITORIES)}:v1`;
    const made = await this.#submit(shortGang(name, image, { ...options, seconds: 3 + Math.floor(pick * 5) }));
    if (made) this.gangs.push(name);
    return made;
  }

  #submit(job: Draft): Promise<boolean> {
    return attempt(() => this.#hands.ground.cluster.client.create(job));
  }

  async #preempt(pick: number): Promise<boolean> {
    const { ground, seed } = this.#hands;
    const name = `s${seed}-urgent${++this.#urgent}`;
    const image = `${ground.door.host}/${this.#repository(pick * REPOSITORIES)}:v1`;
    const made = await this.#submit(shortGang(name, image, { optedIn: false, seconds: 2, pods: 4, urgent: true }));
    if (made) this.gangs.push(name);
    return made;
  }

  /** A gang that has not ended. */
  async #living(pick: number): Promise<Raw | undefined> {
    const living = (await workloads(this.#hands.ground)).filter(
      (w) =>
        !(w['status']?.conditions ?? []).some(
          (c: { type: string; status: string }) => c.type === 'Finished' && c.status === 'True',
        ),
    );
    living.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    return living[Math.floor(pick * living.length)];
  }

  async #withGang(pick: number, act: (job: string) => Promise<unknown>): Promise<boolean> {
    const job = (await this.#living(pick))?.metadata.ownerReferences?.[0]?.name;
    return job !== undefined && (await attempt(() => act(job)));
  }

  async #deactivate(pick: number, atOnce: boolean): Promise<boolean | Fault> {
    const { client } = this.#hands.ground.cluster;
    const name = (await this.#living(pick))?.metadata.name;
    if (name === undefined) return false;
    const set = (active: boolean): Promise<boolean> =>
      attempt(() => client.patch(WORKLOAD, `${NS}/${name}`, { spec: { active } }));
    if (!(await set(false))) return false;
    if (!atOnce) return { what: `${name} inactive`, heal: () => set(true) };
    // Two changes that Kueue sees as one are none.
    await until(
      `Kueue to see that ${name} is inactive`,
      async () => {
        const workload = await client.find(WORKLOAD, `${NS}/${name}`);
        if (workload === undefined || isTrue(workload, 'Finished') || isTrue(workload, 'Evicted')) return true;
        return notYet(workload['status']);
      },
      { timeoutMs: 60_000 },
    );
    return set(true);
  }

  async #knob(pick: number, name: keyof typeof knobNames, value: string): Promise<boolean | Fault> {
    const { cluster } = this.#hands.ground;
    const node = cluster.fakeNodes.names[Math.floor(pick * cluster.fakeNodes.names.length)] ?? '';
    if (!(await attempt(() => knob(cluster, node, knobNames[name], value)))) return false;
    return {
      what: `${name} of ${node}`,
      heal: () => attempt(() => knob(cluster, node, knobNames[name], null)),
    };
  }

  async #nodeGone(pick: number): Promise<boolean | Fault> {
    const { cluster } = this.#hands.ground;
    const name = cluster.fakeNodes.names[Math.floor(pick * cluster.fakeNodes.names.length)] ?? '';
    const old = await cluster.client.find('v1/Node', name);
    if (old === undefined) return false;
    await cluster.client.delete('v1/Node', name);
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: old.metadata.labels ?? {} }, spec: {} };
    return { what: `${name} gone`, heal: () => attempt(() => cluster.client.create(node)) };
  }

  async #hit(replicas: Replicas, pick: number, state: 'killed' | 'frozen'): Promise<boolean | Fault> {
    const victim = await replicas.hit(pick, state);
    return victim !== undefined && { what: `${victim.name} ${state}`, heal: () => replicas.heal(victim) };
  }

  async #deleteOne(pick: number, kind: string, where: { namespace: string; labelSelector?: string }): Promise<boolean> {
    const { client } = this.#hands.ground.cluster;
    const all = await client.list(kind, where);
    const one = all[Math.floor(pick * all.length)];
    if (one === undefined) return false;
    return attempt(() => client.delete(kind, `${where.namespace}/${one.metadata.name}`));
  }

  /** Kueue keeps a check that a queue names, so it is taken out of the queue first, as the runbook says. */
  async #deleteCheck(): Promise<boolean | Fault> {
    const { client } = this.#hands.ground.cluster;
    const queue = 'kueue.x-k8s.io/v1beta2/ClusterQueue';
    const name = async (checks: string[]): Promise<unknown> =>
      client.patch(queue, QUEUE, {
        spec: { admissionChecksStrategy: checks.length === 0 ? null : { admissionChecks: checks.map((c) => ({ name: c })) } },
      });
    const check = await client.find(ADMISSION_CHECK, CHECK);
    if (check === undefined || !(await attempt(() => name([])))) return false;
    await attempt(() => client.delete(ADMISSION_CHECK, CHECK));
    const again = { apiVersion: check.apiVersion, kind: check.kind, metadata: { name: CHECK }, spec: check['spec'] as object };
    const heal = async (): Promise<void> => {
      await client.untilGone(ADMISSION_CHECK, CHECK);
      await client.create(again);
      await name([CHECK]);
    };
    return { what: `check ${CHECK} deleted`, heal };
  }
}
