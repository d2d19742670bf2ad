import { createHash } from 'node:crypto';
import { keyOf } from '../../../src/api/object.js';
import { defaultConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { ACTION_TYPES } from '../../../src/controller/actions.js';
import type { Period, Violation } from '../invariants/index.js';
import { outcomeOf, releasesOf } from '../invariants/index.js';
import type { ReleaseCause } from '../invariants/releases.js';
import type { CallFault } from './client.js';
import type { Ground } from './faults.js';
import { FAULTS, LONGEST_JUMP_MS, switchMode } from './faults.js';
import { judge, unfinished } from './judge.js';
import { jobs } from './models/jobs.js';
import { Kueue } from './models/kueue.js';
import { Machine } from './models/machine.js';
import { Collector, NodeController, daemonSets, scheduler } from './models/nodes.js';
import { SimRegistry } from './models/registry.js';
import type { World } from './models/world.js';
import { CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE, NS, POOL, RESOURCE, SYSTEM } from './models/world.js';
import { Controller, Webhook } from './processes.js';
import { Random } from './random.js';
import { Store } from './store/store.js';
import { Timeline } from './timeline.js';
import { IMAGES, bytesOf, createCheck, wishesOf } from './wishes.js';

export interface RunOptions {
  seed: number;
  /** False: only the wishes of people, and nothing goes wrong. */
  faults: boolean;
}

export interface Run {
  seed: number;
  violations: Violation[];
  /** Of everything that happened, in order: equal seeds have equal ones. */
  trace: string;
  /** Faults and wishes that hit, by kind. */
  hits: Record<string, number>;
  releases: Record<ReleaseCause, number>;
  outcome: string[];
  /** The trace in words, oldest first. */
  lines: string[];
}

const START = Date.parse('2026-01-01T00:00:00Z');
/** Faults and wishes fall into this part of the run, ms after its start. */
const WINDOW = [20_000, 900_000] as const;
/** How long everything is left alone afterwards, ms. */
const CALM_MS = 2_400_000;
const NODES = 6;
const SLOTS = 5;
const FAULTS_PER_SEED = 30;
/** Failpoints at which a controller dies in one run. */
const POINTS_PER_SEED = 8;
const PROBE_MS = 1_000;
/** So long after a fault what it did may still show: both replicas may be dead for four minutes, ms. */
const LONGEST_TROUBLE_MS = 300_000;
/** Longer than any pause after which a controller looks again, ms. */
const REST_MS = 200_000;

export const CONFIG: HarbingerConfig = {
  ...defaultConfig(),
  holds: { ...defaultConfig().holds, gatedJobs: 'On', gatedSeconds: 60 },
  budgets: {
    ...defaultConfig().budgets,
    maxPullingNodes: 4,
    maxPullingNodesPerRegistry: 3,
    minDeadlineSeconds: 120,
    retainAfterAdmissionMinutes: 2,
    tagRecheckSeconds: 20,
    gangsAheadPerQueue: 3,
  },
};

/** Words that stand in Secrets of the tenant and nowhere else. */
export const SECRETS = ['s3cr3t-of-the-tenant', 'dG9rZW4tb2YtdGhlLXRlbmFudA=='] as const;

/** Runs one seed from an empty cluster to its rest, and judges it. Nothing but the seed decides what happens. */
export async function runSeed({ seed, faults }: RunOptions): Promise<Run> {
  const realRandom = Math.random;
  const random = new Random(seed);
  const leak = random.fork();
  // What asks for chance by itself must not make two runs differ.
  Math.random = () => leak.next();
  try {
    return await new Simulation(seed, random, faults).run();
  } finally {
    Math.random = realRandom;
  }
}

class Simulation {
  readonly #seed: number;
  readonly #faults: boolean;
  readonly #random: Random;
  readonly #world: World;
  readonly #ground: Ground;
  readonly #hash = createHash('sha256');
  readonly #lines: string[] = [];
  readonly #log: string[] = [];
  readonly #hits = new Map<string, number>();
  readonly #blind: Period[] = [];
  readonly #stalls: Period[] = [];
  readonly #ahead: Period[] = [];
  readonly #troubles: Period[] = [];
  #calm = false;
  #changedAt = 0;

  constructor(seed: number, random: Random, faults: boolean) {
    this.#seed = seed;
    this.#faults = faults;
    this.#random = random;
    const timeline = new Timeline(START);
    const chance = random.fork();
    const store = new Store({ now: () => timeline.now, random: () => chance.next() });
    const note = (line: string): void => this.#note(line);
    const registry = new SimRegistry(timeline, random.fork());
    this.#world = {
      timeline,
      store,
      random: random.fork(),
      registry,
      images: [],
      pulls: [],
      silences: [],
      byHand: { nodes: new Map(), pods: new Set() },
      note,
    };
    store.onChange(({ type, object }) => {
      if (object.kind === 'Lease') return;
      if (object.kind !== 'ConfigMap') this.#changedAt = timeline.now;
      this.#hash.update(JSON.stringify(object));
      this.#note(`${type} ${object.kind} ${keyOf(object)} ${object.metadata.resourceVersion ?? ''}`);
    });
    this.#ground = this.#build();
  }

  async run(): Promise<Run> {
    const { timeline } = this.#world;
    this.#schedule();
    this.#probe();
    await timeline.run(START + WINDOW[1]);
    this.#heal();
    const end = timeline.now + CALM_MS;
    while (timeline.now < end && !this.#rests()) await timeline.run(timeline.now + 30_000);
    const { store, images, pulls, silences } = this.#world;
    const violations = judge({
      history: store.log,
      images,
      pulls,
      silences,
      objects: store.all(),
      blind: this.#blind,
      stalls: this.#stalls,
      troubles: this.#troubles,
      ahead: this.#ahead,
      log: this.#log,
      secrets: SECRETS,
      until: timeline.now,
      config: CONFIG,
    });
    return {
      seed: this.#seed,
      violations,
      trace: this.#hash.digest('hex'),
      hits: Object.fromEntries(this.#hits),
      releases: releasesOf(store.log),
      outcome: outcomeOf(store.all(), { blind: this.#blind, deadlineMs: CONFIG.budgets.minDeadlineSeconds * 1000 }),
      lines: this.#lines,
    };
  }

  /** Nothing has changed for longer than anything waits, while somebody could act, and every gang had its turn. */
  #rests(): boolean {
    const since = Math.max(this.#changedAt, this.#blind.at(-1)?.to ?? 0);
    return this.#world.timeline.now - since > REST_MS && unfinished(this.#world.store.all(), 0).length === 0;
  }

  #build(): Ground {
    const world = this.#world;
    this.#furnish();
    const machines = new Map(
      Array.from({ length: NODES }, (_none, i) => [`node-${i}`, new Machine(`node-${i}`, world)] as const),
    );
    const nodes = new NodeController(world, machines);
    for (const machine of machines.values()) machine.join();
    const kueue = new Kueue(world, { slots: SLOTS, waitForPodsReady: this.#seed % 2 === 0 });
    scheduler(world);
    daemonSets(world);
    const collector = new Collector(world);
    jobs(world);
    const trouble: Ground['trouble'] = { until: 0, fault: undefined, share: 0 };
    const setting: Ground['setting'] = { mode: 'On' };
    const config = (): HarbingerConfig => ({ ...CONFIG, ...setting });
    const seat = (name: string) => ({ world, name, config, fault: () => this.#troubleOf(trouble), log: this.#log });
    const armed = new Set<string>();
    const hit = (point: string): void => this.#hit(`crash ${point}`);
    const controllers = ['controller-0', 'controller-1'].map((name) => new Controller(seat(name), armed, hit));
    const webhooks = ['webhook-0', 'webhook-1'].map((name) => new Webhook(seat(name)));
    for (const replica of [...controllers, ...webhooks]) replica.start();
    return { world, random: this.#random.fork(), controllers, webhooks, machines, nodes, collector, kueue, trouble, setting };
  }

  /** What stands in the cluster before the first gang comes. */
  #furnish(): void {
    const { store, registry } = this.#world;
    const of = (kind: string, name: string, more: object, namespace?: string) =>
      ({ apiVersion: '', kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) }, ...more }) as never;
    for (const name of [NS, SYSTEM]) store.create(RESOURCE.namespaces, of('Namespace', name, {}));
    store.create(RESOURCE.secrets, of('Secret', 'pull', { data: { '.dockerconfigjson': SECRETS.join(' ') } }, NS));
    store.create(RESOURCE.resourceFlavors, of('ResourceFlavor', FLAVOR, { spec: { nodeLabels: POOL } }));
    const queue = {
      resourceGroups: [{ coveredResources: ['cpu'], flavors: [{ name: FLAVOR, resources: [] }] }],
      admissionChecksStrategy: { admissionChecks: [{ name: 'images' }] },
    };
    store.create(RESOURCE.clusterQueues, of('ClusterQueue', CLUSTER_QUEUE, { spec: queue }));
    store.create(RESOURCE.localQueues, of('LocalQueue', LOCAL_QUEUE, { spec: { clusterQueue: CLUSTER_QUEUE } }, NS));
    const spec = { defaultHoldSeconds: 20, ...onTimeout(this.#seed) };
    store.create(RESOURCE.prewarmCheckConfigs, of('PrewarmCheckConfig', 'default', { spec }));
    createCheck(this.#world);
    for (const repository of IMAGES) registry.push(repository, 'v1', bytesOf(this.#random));
  }

  #schedule(): void {
    const { timeline } = this.#world;
    for (const wish of wishesOf(this.#random.fork(), WINDOW))
      timeline.after(wish.at, () => {
        const granted = wish.grant(this.#world);
        this.#note(`WISH ${wish.name}${granted ? '' : ' (nothing there)'}`);
        if (granted) this.#hit(`wish: ${wish.name.replace(/ gang-\d+$/, '')}`);
      });
    const random = this.#random.fork();
    const kinds = Object.keys(FAULTS);
    // Each seed begins at another kind, so that all come equally often.
    const planned = Array.from({ length: FAULTS_PER_SEED }, (_none, i) => kinds[(this.#seed * 7 + i) % kinds.length] ?? '');
    const points = ACTION_TYPES.flatMap((type) => [`before:${type}`, `after:${type}`]);
    const armed = random.shuffle(points).slice(0, POINTS_PER_SEED);
    if (!this.#faults) return;
    for (const point of armed) timeline.after(random.int(0, WINDOW[1] / 2), () => this.#ground.controllers[0]?.armed.add(point));
    for (const kind of planned) timeline.after(random.int(...WINDOW), () => this.#fault(kind));
  }

  #fault(kind: string, tries = 5): void {
    const { timeline } = this.#world;
    const hit = FAULTS[kind]?.(this.#ground) === true;
    this.#note(`FAULT ${kind}${hit ? '' : ' (nothing there)'}`);
    if (kind === 'clock jumps' && hit) this.#ahead.push({ from: timeline.now, to: timeline.now + LONGEST_JUMP_MS });
    if (kind === 'watches stalled' && hit) this.#stalls.push({ from: timeline.now, to: timeline.now + 120_000 });
    if (hit) this.#troubles.push({ from: timeline.now, to: timeline.now + LONGEST_TROUBLE_MS });
    if (hit) return this.#hit(kind);
    if (tries > 1 && timeline.now + 30_000 < START + WINDOW[1]) timeline.after(20_000, () => this.#fault(kind, tries - 1));
  }

  /** From here on nothing goes wrong any more. */
  #heal(): void {
    this.#calm = true;
    const { controllers, machines, trouble } = this.#ground;
    controllers[0]?.armed.clear();
    trouble.until = 0;
    for (const machine of machines.values()) machine.speak();
    for (const repository of IMAGES) this.#world.registry.trouble(repository, undefined);
    for (const { host } of controllers) if (host !== undefined) host.skewMs = 0;
    switchMode(this.#ground, 'On');
    this.#note('CALM');
  }

  #troubleOf(trouble: Ground['trouble']): CallFault | undefined {
    if (this.#world.timeline.now >= trouble.until || this.#calm) return undefined;
    return this.#ground.random.chance(trouble.share) ? trouble.fault : undefined;
  }

  /** Notes when no controller could see and write. */
  #probe(): void {
    const { timeline } = this.#world;
    const { controllers, trouble } = this.#ground;
    const acts = controllers.some((c) => c.leading && c.runsSince !== undefined && timeline.now >= c.runsSince + SETTLE_MS);
    const last = this.#blind.at(-1);
    if (acts && timeline.now >= trouble.until + SETTLE_MS) {
      if (last?.to === Number.POSITIVE_INFINITY) last.to = timeline.now;
    } else if (last?.to !== Number.POSITIVE_INFINITY) this.#blind.push({ from: timeline.now, to: Number.POSITIVE_INFINITY });
    timeline.after(PROBE_MS, () => this.#probe());
  }

  #hit(kind: string): void {
    if (kind.startsWith('crash '))
      this.#troubles.push({ from: this.#world.timeline.now, to: this.#world.timeline.now + LONGEST_TROUBLE_MS });
    this.#hits.set(kind, (this.#hits.get(kind) ?? 0) + 1);
  }

  #note(line: string): void {
    const at = ((this.#world.timeline.now - START) / 1000).toFixed(3);
    this.#hash.update(`${at} ${line}\n`);
    this.#lines.push(`${at.padStart(9)} ${line}`);
  }
}

/** What the check says of holds that are over: to two seeds of three that gangs are sent back, at once or after a while. */
export function onTimeout(seed: number): { onTimeout?: string; requeueAfterSeconds?: number; maxRetries?: number } {
  if (seed % 3 === 0) return {};
  const requeueAfterSeconds = seed % 3 === 1 ? 0 : 5 + (seed % 7) * 10;
  return { onTimeout: 'Retry', requeueAfterSeconds, maxRetries: 1 + (seed % 2) };
}

/** A new leader lists everything before it acts, ms. */
const SETTLE_MS = 20_000;
