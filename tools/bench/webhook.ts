import type { Outcome } from '../../src/api/outcomes.js';
import type { NodeClass } from '../../src/placement/node-classes.js';
import { encodeNodeClasses } from '../../src/placement/node-classes.js';
import { sleep } from '../../test/cluster/until.js';
import { cpuSeconds } from './cpu.js';
import { residentMb } from './footprint.js';
import { Ground, NAMESPACE, policy } from './ground.js';
import type { Target } from './load/connection.js';
import type { LoadSpec } from './load/main.js';
import type { Load, Sample } from './load/patterns.js';
import { p50, p99 } from './percentile.js';
import { measurement, type Measurement } from './results.js';

const CONNECTIONS = 16;
const REPEATS = 5;
const SLOW_REPEATS = 3;
const PER_SECOND = 1_000;
const WARMUP_MS = 1_500;
const FOR_MS = 4_000;
const HEAT_MS = 20_000;
const SETTLE_MS = 3_000;
/** Some seconds until the breaker opens, its first pause of 15 s, and a trial call. */
const HANG_MS = 40_000;

/** Named samples of all repeats; each name becomes a line of the result. */
type Samples = Map<string, { unit: string; values: number[] }>;

const msOf = (load: { samples: readonly Sample[] }): number[] => load.samples.map((s) => s.ms);

/** One replica of the webhook under load from a second process; every ratio is of two legs of the same repeat. */
export async function webhook(say: (line: string) => void): Promise<Measurement[]> {
  const ground = await Ground.start(say);
  try {
    const samples: Samples = new Map();
    const note = (name: string, unit: string, value: number): void => {
      const { values } = samples.get(name) ?? { values: [] };
      samples.set(name, { unit, values: [...values, value] });
      say(`  ${name} ${value.toFixed(3)} ${unit}`);
    };
    const bench = new WebhookBench(ground, note);
    await bench.heat();
    await repeat(REPEATS, 'warm', say, (odd) => bench.warm(odd));
    await repeat(REPEATS, 'policies', say, (odd) => bench.policies(odd));
    await repeat(SLOW_REPEATS, 'gang', say, () => bench.gang());
    await repeat(SLOW_REPEATS, 'hanging registry', say, () => bench.hangingRegistry());
    await repeat(SLOW_REPEATS, 'references', say, () => bench.references());
    return [...samples].map(([name, { unit, values }]) => measurement(name, unit, values));
  } finally {
    await ground.stop();
  }
}

async function repeat(
  times: number,
  what: string,
  say: (line: string) => void,
  run: (odd: boolean) => Promise<void>,
): Promise<void> {
  for (let i = 1; i <= times; i++) {
    say(`${what}: ${i} of ${times}`);
    await run(i % 2 === 1);
  }
}

export class WebhookBench {
  readonly #ground: Ground;
  readonly #note: (name: string, unit: string, value: number) => void;

  constructor(ground: Ground, note: (name: string, unit: string, value: number) => void) {
    this.#ground = ground;
    this.#note = note;
  }

  /** Runs both handlers until their code is compiled: the first thousands of requests say nothing of the rest. */
  async heat(): Promise<void> {
    for (const target of [this.#ground.bare, this.#ground.target]) await this.#closed(target, HEAT_MS);
  }

  /** Cached images, against a handler that only parses; who goes first changes with each repeat. */
  async warm(bareFirst: boolean): Promise<void> {
    const { bare, barePid, target, webhook: replica } = this.#ground;
    const order = bareFirst ? [bare, target] : [target, bare];
    const [rate, tail] = [new Map<Target, number>(), new Map<Target, number>()];
    const cpu = new Map<Target, number>();
    for (const each of order) {
      const pid = each === bare ? barePid : replica.pid;
      const before = cpuSeconds(pid);
      const load = await this.#closed(each);
      cpu.set(each, ((cpuSeconds(pid) - before) / load.answered) * 1e6);
      rate.set(each, load.samples.length / load.seconds);
      if (each === target) mustRewrite(load);
    }
    for (const each of order) {
      const load = await this.#fixed(each);
      tail.set(each, p99(msOf(load)));
      this.#note(each === bare ? 'bare_p50_ms' : 'admission_warm_p50_ms', 'ms', p50(msOf(load)));
    }
    const [ours, theirs] = [rate.get(target) ?? NaN, rate.get(bare) ?? NaN];
    this.#note('admission_warm_rate_vs_bare', 'x', ours / theirs);
    this.#note('admission_warm_per_second', '1/s', ours);
    this.#note('bare_per_second', '1/s', theirs);
    // What neighbours on the machine do changes rates by far more than these.
    this.#note('admission_warm_cpu_us', 'us', cpu.get(target) ?? NaN);
    this.#note('bare_cpu_us', 'us', cpu.get(bare) ?? NaN);
    this.#note('admission_warm_cpu_vs_bare', 'x', (cpu.get(target) ?? NaN) / (cpu.get(bare) ?? NaN));
    const [tailOurs, tailTheirs] = [tail.get(target) ?? NaN, tail.get(bare) ?? NaN];
    this.#note('admission_warm_p99_vs_bare', 'x', tailOurs / tailTheirs);
    this.#note('admission_warm_p99_ms', 'ms', tailOurs);
    this.#note('bare_p99_ms', 'ms', tailTheirs);
  }

  /** One policy and no picture of the nodes, against 200 policies of which the last one decides, and 500 classes of nodes. */
  async policies(fewFirst: boolean): Promise<void> {
    const few = async (): Promise<number> => p99(msOf(await this.#fixed(this.#ground.target)));
    const many = async (): Promise<number> => {
      await this.#addPolicies();
      // The API server is still busy with what it was given.
      await sleep(SETTLE_MS);
      const load = await this.#fixed(this.#ground.target);
      mustRewrite(load);
      await this.#removePolicies();
      return p99(msOf(load));
    };
    const first = fewFirst ? await few() : undefined;
    const after = await many();
    const before = first ?? (await few());
    this.#note('policy_200_p99_vs_warm', 'x', after / before);
    this.#note('policy_200_p99_ms', 'ms', after);
  }

  /** A thousand Pods of two images at once, of which nothing is known yet. */
  async gang(): Promise<void> {
    const { registry, target } = this.#ground;
    await this.#ground.restart();
    registry.forget();
    registry.delayMs = 50;
    const rows = [this.#images('team/gang', 'plain/gang-sidecar')];
    const load = await this.#ground.load({ pattern: 'burst', pods: 1_000, target, namespace: NAMESPACE, rows });
    registry.delayMs = 0;
    const sources = [...registry.tagRequests()].filter(([tag]) => tag.endsWith(':v1')).map(([, count]) => count);
    if (sources.length !== 2) throw new Error(`${sources.length} of two images were looked up`);
    this.#note('gang_cold_resolutions_per_image', 'calls', Math.max(...sources));
    this.#note('gang_cold_patched', 'share', load.rewritten / load.samples.length);
    this.#note('gang_cold_p99_ms', 'ms', p99(msOf(load)));
  }

  /** A registry that takes requests and never answers: until the breaker opens, and then beyond the first trial call. */
  async hangingRegistry(): Promise<void> {
    const { registry, silent } = this.#ground;
    await this.#ground.restart();
    // Pods of two images for which no variant is found, in both legs: they differ by their registry alone.
    const warm = await this.#leaving(registry.host, WARMUP_MS, FOR_MS);
    const before = await this.#decided('budget-exceeded');
    const begun = Date.now();
    const running = this.#leaving(silent.host, 0, HANG_MS);
    const opened = await this.#untilOpen(silent.host);
    await sleep(opened + 1_000 - Date.now());
    const [waited, refused, asked] = [await this.#decided('budget-exceeded'), await this.#decided('circuit-open'), silent.asked];
    const load = await running;
    // What was due a budget before the breaker opened had to wait for it, or for the end of its budget.
    const hung = load.samples.filter((s) => s.at < opened - 1_000);
    const open = load.samples.filter((s) => s.at > opened + 1_000);
    must(waited > before, 'no admission ran out of time before the breaker opened');
    // Two images a Pod; failures of calls before, and of trial calls, are kept for seconds and are none of the breaker.
    must((await this.#decided('circuit-open')) - refused >= open.length, 'the breaker did not answer for the registry');
    must(silent.asked > asked, 'no trial call fell into the measured time');
    this.#note('registry_hang_p99_ms', 'ms', p99(msOf({ samples: hung })));
    this.#note('registry_opens_after_s', 's', (opened - begun) / 1_000);
    this.#note('registry_open_p99_ms', 'ms', p99(msOf({ samples: open })));
    this.#note('registry_open_max_ms', 'ms', Math.max(...msOf({ samples: open })));
    this.#note('registry_open_trial_calls', 'calls', silent.asked - asked);
    this.#note('registry_open_p99_vs_warm', 'x', p99(msOf({ samples: open })) / p99(msOf(warm)));
  }

  /** What stays in memory of a hundred thousand images that were each named once. */
  async references(): Promise<void> {
    const { target, webhook, registry } = this.#ground;
    await this.#ground.restart();
    const closed = await this.#closed(target);
    mustRewrite(closed);
    // One in ten has a variant.
    const rows = Array.from({ length: 10_000 }, (_, i) =>
      Array.from({ length: 10 }, (__, j) => `${registry.host}/${j === 0 ? 'team' : 'plain'}/one-of-many-${i * 10 + j}:v1`),
    );
    const before = await residentMb(webhook);
    let peak = before;
    let done = false;
    const watching = (async () => {
      for (; !done; await sleep(500)) peak = Math.max(peak, await residentMb(webhook));
    })();
    const load = await this.#ground.load({ pattern: 'each-once', connections: CONNECTIONS, target, namespace: NAMESPACE, rows });
    done = true;
    await watching;
    // A busy machine runs some out of time; their answers come later and are kept all the same.
    const share = load.rewritten / load.samples.length;
    must(share > 0.9, `only ${Math.round(share * 100)} % of the Pods got variants`);
    registry.forget();
    await sleep(5_000);
    this.#note('refs_100k_rss_growth_mb', 'MB', (await residentMb(webhook)) - before);
    this.#note('refs_100k_rss_peak_growth_mb', 'MB', peak - before);
    this.#note('refs_100k_per_second', '1/s', (load.samples.length * 10) / load.seconds);
  }

  /** Pods of a registry whose images all stay as they are. */
  async #leaving(host: string, warmupMs: number, forMs: number): Promise<Load> {
    const load = await this.#ground.load({
      pattern: 'rate',
      target: this.#ground.target,
      namespace: NAMESPACE,
      // Enough for all that wait a budget of 1 s at once: an API server's handshakes are not what is measured.
      connections: 600,
      // Below what a replica accepts, and with a budget of 1 s more than hangs at once.
      most: 900,
      perSecond: 500,
      rows: Array.from({ length: 20 }, (_, i) => ['main', 'side'].map((name) => `${host}/plain/${name}-${i}:v1`)),
      warmupMs,
      forMs,
    });
    must(load.rewritten === 0, `${load.rewritten} Pods got variants`);
    return load;
  }

  #decided(outcome: Outcome): Promise<number> {
    return this.#ground.metric('harbinger_admission_decisions_total', `outcome="${outcome}"`);
  }

  #images(...repositories: string[]): string[] {
    return repositories.map((repository) => `${this.#ground.registry.host}/${repository}:v1`);
  }

  #warmRows(): string[][] {
    return [this.#images('team/train', 'plain/sidecar')];
  }

  #closed(target: Target, forMs = FOR_MS): Promise<Load> {
    const spec: LoadSpec = {
      pattern: 'closed',
      target,
      namespace: NAMESPACE,
      connections: CONNECTIONS,
      rows: this.#warmRows(),
      warmupMs: WARMUP_MS,
      forMs,
    };
    return this.#ground.load(spec);
  }

  #fixed(target: Target): Promise<Load> {
    return this.#ground.load({
      pattern: 'rate',
      target,
      namespace: NAMESPACE,
      connections: CONNECTIONS,
      most: CONNECTIONS,
      perSecond: PER_SECOND,
      rows: this.#warmRows(),
      warmupMs: WARMUP_MS,
      forMs: FOR_MS,
    });
  }

  async #addPolicies(): Promise<void> {
    const { client } = this.#ground.cluster;
    await client.apply(
      Array.from({ length: 199 }, (_, i) =>
        policy(`other-${i}`, {
          priority: 100,
          match: {
            namespaceSelector: { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: [`tier-${i}`] }] },
            images: [`registry-${i}.example.com/**`, `127.0.0.1:*/team-${i}/*`, `**/models-${i}/**:v*`],
            excludeImages: [`**/scratch-${i}/**`],
          },
        }),
      ),
    );
    await client.apply(nodeClasses());
    await this.#ground.untilPolicies(200);
  }

  async #removePolicies(): Promise<void> {
    const { client } = this.#ground.cluster;
    await Promise.all(
      Array.from({ length: 199 }, (_, i) => client.delete('harbinger.dev/v1alpha1/AccelerationPolicy', `other-${i}`)),
    );
    await client.delete('v1/ConfigMap', 'harbinger-system/harbinger-node-classes');
    await this.#ground.untilPolicies(1);
  }

  async #untilOpen(host: string): Promise<number> {
    const deadline = Date.now() + 60_000;
    for (; Date.now() < deadline; await sleep(50))
      if ((await this.#ground.metric('harbinger_registry_breaker_state', `host="${host}"`)) === 2) return Date.now();
    throw new Error(`the breaker of ${host} did not open within 60 s`);
  }
}

/** A leg in which images stay as they are is another path through the code, and its numbers mean nothing here. */
function mustRewrite({ rewritten, samples }: Load): void {
  must(rewritten >= samples.length, `${samples.length - rewritten} of ${samples.length} Pods were left alone`);
}

function must(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(`the numbers mean nothing: ${otherwise}`);
}

function nodeClasses(): { apiVersion: string; kind: string; metadata: { name: string; namespace: string }; data: object } {
  const classes = Array.from({ length: 500 }, (_, i): NodeClass => ({
    labels: {
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': 'amd64',
      'cloud.example.com/accelerator': i % 2 === 0 ? 'h100' : 'a100',
      'topology.kubernetes.io/rack': `rack-${i}`,
    },
    taints: [{ key: 'nvidia.com/gpu', value: '', effect: 'NoSchedule' }],
    platform: 'linux/amd64',
    formats: [],
    count: 10,
  }));
  const tracked = Object.keys(classes[0]?.labels ?? {});
  const view = { publishedAt: Date.now(), tracked, classes, capabilities: [], quarantined: [], notes: [] };
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'harbinger-node-classes', namespace: 'harbinger-system' },
    data: encodeNodeClasses(view),
  };
}
