import { notYet, sleep, until } from '../../../test/cluster/until.js';
import { cpuSeconds } from '../cpu.js';
import type { Samples } from '../controller.js';
import { residentMb } from '../footprint.js';
import { p99 } from '../percentile.js';
import { ControllerGround } from './ground.js';
import type { GangPlan } from './gangs.js';
import { PULLER, SYSTEM } from './gangs.js';

const PODS = 64;
const IMAGES = 50;
/** Gangs that are warmed, by the default of gangsAheadPerQueue; the others wait behind them. */
const HEADS = 8;
const GANGS = { few: 50, many: Number(process.env['GANGS'] ?? 500) };
const REPEATS = 3;
const STEADY_MS = 15_000;
/** New gangs at the head of the queue, one after the other. */
const PROBES = 5;

const namesOf = (gangs: readonly GangPlan[]): Set<string> => new Set(gangs.map((g) => g.name));

/** Everything that is measured with nodes that are played: how much the controller takes, writes and waits. */
export async function fakeNodes(samples: Samples, say: (line: string) => void): Promise<void> {
  const nodes = Number(process.env['NODES'] ?? 1_000);
  const ground = await ControllerGround.start(nodes, say);
  try {
    const bench = new FakeNodesBench(ground, samples, say);
    await bench.heads();
    for (let i = 1; i <= REPEATS; i++) await bench.costs(i === REPEATS);
    await bench.steady();
    for (let i = 1; i <= REPEATS; i++) await bench.probes(i);
    for (let i = 1; i <= REPEATS; i++) await bench.restarts(i);
    say(`API server: a small GET took ${Math.round(ground.mustNotBeSaturated())} ms at the 99th percentile`);
  } finally {
    await ground.stop();
  }
}

class FakeNodesBench {
  readonly #ground: ControllerGround;
  readonly #samples: Samples;
  readonly #say: (line: string) => void;
  /** References that gangs behind the head have, of which nothing may be pulled. */
  readonly #tail = new Set<string>();
  readonly #begun = performance.now();

  constructor(ground: ControllerGround, samples: Samples, say: (line: string) => void) {
    this.#ground = ground;
    this.#samples = samples;
    this.#say = say;
  }

  /** The gangs at the head, until they are warm. */
  async heads(): Promise<void> {
    this.#lap('head gangs');
    const heads = this.#ground.gangs('head', HEADS, { images: HEADS, pods: PODS, priority: 1_000 });
    await this.#ground.ask({ do: 'make', gangs: heads });
    await this.#untilWarm(heads);
    await this.#ground.untilIdle();
  }

  /** Processor time that gangs cost which join the queue behind, a few and then many; idling is taken off. */
  async costs(keep: boolean): Promise<void> {
    const ground = this.#ground;
    const perGang = async (count: number, stay: boolean): Promise<number> => {
      const gangs = ground.gangs('tail', count, { images: IMAGES - HEADS, pods: PODS, priority: 0 });
      for (const { image } of gangs) this.#tail.add(image.replace(/:v1$/, ''));
      await ground.untilIdle();
      const idle = await this.#cores(5_000);
      const [before, begun] = [cpuSeconds(ground.controller.pid), performance.now()];
      await ground.ask({ do: 'make', gangs });
      await ground.untilPrewarms(`${count} gangs to stand in the queue`, namesOf(gangs), (reason) => reason === 'QueuePosition');
      await sleep(3_000);
      const used = cpuSeconds(ground.controller.pid) - before - (idle * (performance.now() - begun)) / 1_000;
      if (!stay) await ground.ask({ do: 'remove', names: [...namesOf(gangs)] });
      return used / count;
    };
    this.#lap('cost of gangs');
    const few = await perGang(GANGS.few, false);
    const many = await perGang(GANGS.many - HEADS, keep);
    this.#samples.note('cpu_ms_per_gang_of_50', 'ms', few * 1_000);
    this.#samples.note('cpu_ms_per_gang_of_500', 'ms', many * 1_000);
    this.#samples.note('cost_ratio_500_vs_50_gangs', 'x', many / few);
  }

  /** What the controller takes while all gangs stand in the queue and nothing happens but time and heartbeats. */
  async steady(): Promise<void> {
    this.#lap('steady state');
    await this.#ground.untilIdle();
    for (let i = 0; i < REPEATS; i++) {
      this.#samples.note('steady_cpu_cores', 'cores', await this.#cores(STEADY_MS));
      this.#samples.note('rss_mb', 'MB', await residentMb(this.#ground.controller));
    }
  }

  /** Gangs that come in before all others: how soon they pull, and what is written until they are warm. */
  async probes(round: number): Promise<void> {
    this.#lap(`new heads, ${round} of ${REPEATS}`);
    const ground = this.#ground;
    await ground.untilIdle();
    const since = Date.now();
    const gangs = ground.gangs(`probe-${round}-`, PROBES, { images: PROBES, pods: PODS, priority: 2_000 + round });
    const waits: number[] = [];
    for (const [i, gang] of gangs.entries()) {
      const resolved = ground.registry.resolved(ground.repository(`probe-${round}-${i}`));
      const { ms = Number.NaN } = await ground.ask({ do: 'head', gang, resolved });
      waits.push(ms / 1_000);
    }
    this.#samples.note('head_gang_to_daemonset_p99_s', 's', p99(waits));
    await this.#untilWarm(gangs);
    this.#samples.note('writes_per_warm_node', 'writes', ground.writesSince(since) / (PROBES * PODS));
    this.#samples.note('tail_gang_pullers', 'nodes', await this.#tailPullers());
    this.#samples.note('rss_after_warming_mb', 'MB', await residentMb(ground.controller));
    await ground.ask({ do: 'remove', names: [...namesOf(gangs)] });
  }

  /** A restart in the middle of the pulls of a gang. */
  async restarts(round: number): Promise<void> {
    this.#lap(`restart, ${round} of ${REPEATS}`);
    const ground = this.#ground;
    const gangs = ground.gangs(`restart-${round}-`, 1, { images: 1, pods: PODS, priority: 3_000 + round });
    const repository = ground.repository(`restart-${round}-0`);
    await ground.ask({ do: 'make', gangs });
    await ground.untilPrewarms('a part of the nodes to be warm', namesOf(gangs), (_reason, progress) => parseInt(progress) >= 6);
    await ground.controller.kill('SIGTERM');
    const begun = performance.now();
    await ground.controller.start();
    await this.#untilSettled();
    this.#samples.note('restart_settle_s', 's', (performance.now() - begun) / 1_000);
    await this.#untilWarm(gangs);
    await ground.untilIdle();
    const [pulled, size] = await this.#pulledOf(repository);
    this.#samples.note('restart_duplicate_pulls', 'pulls', Math.round(pulled / size) - PODS);
    this.#samples.note('unpaged_lists', 'lists', ground.unpagedLists());
    await ground.ask({ do: 'remove', names: [...namesOf(gangs)] });
  }

  /** Every ImagePrewarm was looked at since the start, and nothing waits to be. */
  async #untilSettled(): Promise<void> {
    const ground = this.#ground;
    await until(
      'the controller to have settled',
      async () => {
        const done = await ground.metric('workqueue_work_duration_seconds_count', 'name="prewarms"');
        const left = (await ground.metric('workqueue_depth')) + (await ground.metric('workqueue_unfinished_work_seconds'));
        return (done > GANGS.many && left === 0) || notYet(`${done} looked at, ${left} left`);
      },
      { timeoutMs: 60_000, everyMs: 200 },
    );
  }

  /** Bytes that all nodes together fetched of an image, and those that one has to. */
  async #pulledOf(repository: string): Promise<[number, number]> {
    const { registry, cluster } = this.#ground;
    const { byImage } = await cluster.fakeNodes.bytes();
    const bytes = byImage[registry.resolved(repository)] ?? 0;
    return [bytes, registry.bytesOf(repository)];
  }

  async #tailPullers(): Promise<number> {
    const sets = await this.#ground.cluster.client.list('apps/v1/DaemonSet', { namespace: SYSTEM, labelSelector: PULLER });
    const ofTail = sets.filter((s) => this.#tail.has(imageOf(s['spec']).replace(/@.*$/, '')));
    return ofTail.reduce((sum, s) => sum + Number(s['status']?.desiredNumberScheduled ?? 0), 0);
  }

  async #untilWarm(gangs: readonly GangPlan[]): Promise<void> {
    const full = `${PODS}/${PODS}`;
    await this.#ground.untilPrewarms(
      'gangs to be warm',
      namesOf(gangs),
      (reason, progress) => reason === 'AllNodesWarm' && progress === full,
    );
  }

  async #cores(forMs: number): Promise<number> {
    const [before, begun] = [cpuSeconds(this.#ground.controller.pid), performance.now()];
    await sleep(forMs);
    return ((cpuSeconds(this.#ground.controller.pid) - before) / (performance.now() - begun)) * 1_000;
  }

  #lap(what: string): void {
    this.#say(`${((performance.now() - this.#begun) / 1_000).toFixed(0)} s: ${what}`);
  }
}

function imageOf(spec: { template?: { spec?: { volumes?: { image?: { reference?: string } }[] } } }): string {
  return spec.template?.spec?.volumes?.find((v) => v.image !== undefined)?.image?.reference ?? '';
}
