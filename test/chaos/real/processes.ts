import type { Cluster } from '../../cluster/cluster.js';
import type { HarbingerProcess } from '../../cluster/harbinger.js';
import { sleep } from '../../cluster/until.js';

type State = 'running' | 'killed' | 'frozen';

/**
 * Faults of the processes of one Deployment, with what a kubelet would do about them: one that has ended by itself is started again. Of two
 * replicas one is left working where `spareOne` says so.
 */
export class Replicas {
  readonly #cluster: Cluster;
  readonly #all: readonly HarbingerProcess[];
  readonly #spareOne: boolean;
  readonly #states = new Map<string, State>();
  /** Times that one ended by itself (a leader that was frozen gives up), with its exit code. */
  readonly ended: string[] = [];

  constructor(cluster: Cluster, all: readonly HarbingerProcess[], options: { spareOne: boolean }) {
    this.#cluster = cluster;
    this.#all = all;
    this.#spareOne = options.spareOne;
    for (const { name } of all) this.#states.set(name, 'running');
  }

  /** Kills or freezes one; false where that would leave none. */
  async hit(pick: number, state: 'killed' | 'frozen'): Promise<HarbingerProcess | undefined> {
    const working = this.#all.filter((p) => this.#states.get(p.name) === 'running');
    const victim = working[Math.floor(pick * working.length)];
    if (victim === undefined || (this.#spareOne && working.length === 1)) return undefined;
    this.#states.set(victim.name, state);
    if (state === 'killed') await victim.kill();
    else await this.#cluster.pause(victim.name);
    return victim;
  }

  /** Starts or thaws it. */
  async heal({ name }: HarbingerProcess): Promise<void> {
    const before = this.#states.get(name);
    if (before === 'killed') await this.#cluster.restart(name);
    else if (before === 'frozen') await this.#cluster.resume(name);
    this.#states.set(name, 'running');
  }

  /** Until the signal aborts: starts what has ended without having been killed here. */
  async keep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const children = await this.#cluster.supervisor.list();
      for (const { name } of this.#all) {
        const child = children.find((c) => c.name === name);
        if (child?.running !== false || this.#states.get(name) === 'killed') continue;
        this.ended.push(`${name}: ${child.exit}`);
        await this.#cluster.restart(name);
      }
      await sleep(300);
    }
  }
}
