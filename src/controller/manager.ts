import type { ImagePrewarm } from '../api/kinds/index.js';
import { keyOf } from '../api/object.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { WatchPort } from '../kube/client.js';
import type { EventRecorder } from '../kube/events.js';
import type { DiscoveryPort, KubePort } from '../kube/port.js';
import type { Result } from '../kube/work-queue.js';
import { WorkQueue } from '../kube/work-queue.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { gangIndex } from '../gangs/identity.js';
import type { Gang } from '../gangs/shape.js';
import { classEssence } from '../placement/classify.js';
import type { NodeFacts } from '../placement/node-facts.js';
import type { ActuatorOptions } from './actions.js';
import { Actuator } from './actions.js';
import { Caches } from './caches.js';
import { canonical } from './gangs/decide.js';
import { GangCredentials } from './gangs/credentials.js';
import type { WorkloadView } from './gangs/sources/kueue.js';
import type { OwnerView } from './gangs/sources/owners.js';
import { GangViews } from './gangs/views.js';
import { GangReconciler } from './gangs/reconciler.js';
import { Guard } from './gangs/guard.js';
import { AdmissionCheckReconciler } from './holds/admission-checks.js';
import { GangWarmth } from './holds/gang-warmth.js';
import { GatedJobsReconciler } from './holds/gated-jobs.js';
import { HoldCounts } from './holds/hold-counts.js';
import { KueueCheckReconciler } from './holds/kueue-check.js';
import { LOOK_MS as HOLD_LOOK_MS } from './holds/decide.js';
import { GangPods } from './nodes/landed.js';
import { workloadReader } from './gangs/live.js';
import { Lookups } from './images/lookups.js';
import { NodeClassesReconciler } from './nodes/node-classes.js';
import { PrewarmMetrics } from './metrics.js';
import { PlannerLoop } from './pullers/planner-loop.js';
import { PolicyReconciler } from './policies.js';
import { PrewarmReconciler } from './prewarm/reconciler.js';
import { rejectionReader } from './pullers/rejections.js';
import { RecordedVariants } from './images/recorded-variants.js';
import { VariantFailures } from './images/variant-failures.js';

export interface ManagerOptions {
  client: KubePort & WatchPort;
  /** What the API server serves; without it only kinds of jobs are read that every cluster has. */
  discovery?: DiscoveryPort | undefined;
  registry: () => RegistryPort;
  config: () => HarbingerConfig;
  events: EventRecorder;
  clock: Clock;
  /** Milliseconds that never jump, whatever becomes of the machine's clock. */
  monotonic: () => number;
  log: Log;
  metrics: Metrics;
  namespace: string;
  pullerImage: string;
  leading: ActuatorOptions['leading'];
  failpoint: ActuatorOptions['failpoint'];
}

/** Changes that come within this time are planned together, ms: a plan looks at everything. */
const PLAN_DELAY_MS = 200;
/** With many gangs a plan takes long: the pause before the next one is so many times that, so that planning never takes all of a core. */
const PLAN_PAUSE = 8;
const MAX_PLAN_DELAY_MS = 1_500;
const PLAN = 'plan';
/** Changes of nodes that come within this time are published together, ms. */
const NODES_DELAY_MS = 1_000;
const NODES = 'nodes';
/** A gang whose owner has not been seen yet is looked at again after this time if no event came, ms. */
const OWNER_LOOK_MS = 1_000;

const HOSTNAME = 'kubernetes.io/hostname';

/** Whether two states of a node make no difference to a plan: heartbeats come from every node all the time. */
function isSameForPlans(now: NodeFacts | undefined, before: NodeFacts | undefined): boolean {
  const essence = (node: NodeFacts | undefined): string => canonical({ ...node, conditions: undefined });
  return essence(now) === essence(before);
}

/** Wires caches, queues and reconcilers of the controller. All state is in the API server: a new manager goes on where another one ended. */
export class Manager {
  readonly #caches: Caches;
  readonly #views: GangViews;
  readonly #planner: PlannerLoop;
  readonly #failures: VariantFailures;
  readonly #counts: HoldCounts;
  /** Since variants on record were judged last. */
  #nodesChanged = false;
  readonly #queues: {
    plan: WorkQueue;
    gangs: WorkQueue;
    prewarms: WorkQueue;
    checks: WorkQueue;
    gates: WorkQueue;
    admissionChecks: WorkQueue;
    policies: WorkQueue;
    nodeClasses: WorkQueue;
  };

  constructor(options: ManagerOptions) {
    const { client, clock, monotonic, log, metrics, namespace, config } = options;
    const withoutKueue = (): readonly string[] => config().gangs.withoutKueue;
    const caches = new Caches({ client, namespace, clock, log, metrics, discovery: options.discovery, withoutKueue });
    const views = new GangViews(caches, () => config().holds.gatedJobs);
    const actuator = new Actuator({ client, log, metrics, leading: options.leading, failpoint: options.failpoint });
    const guard = new Guard(monotonic);
    const failures = new VariantFailures({ clock, log, metrics, leading: options.leading });
    const nodeClasses = new NodeClassesReconciler({ client, caches, actuator, failures, config, clock, log, metrics, namespace });
    const facts = {
      nodeClasses: () => nodeClasses.view(),
      runtimeClass: (name: string) => caches.runtimeClasses.get(name),
      registry: options.registry,
      policies: () => caches.policies.list().flatMap(({ reading }) => (reading.ok ? [reading.policy] : [])),
      namespaceLabels: (name: string) => caches.namespaces.get(name)?.labels ?? {},
      clock,
    };
    const credentials = new GangCredentials({ client, clock, log, config });
    const numbers = new PrewarmMetrics(metrics);
    const base = { caches, views, actuator, guard, config, clock };
    this.#caches = caches;
    this.#views = views;
    this.#failures = failures;
    this.#planner = new PlannerLoop({
      ...base,
      monotonic,
      log,
      metrics: numbers,
      namespace,
      program: options.pullerImage,
      readRejection: rejectionReader(client),
      onChange: (key) => {
        this.#queues.prewarms.add(key);
        // A status that the plan bears out is not written again, and holds wait for that.
        for (const w of this.#workloadsFor(caches.prewarms.get(key))) this.#hold(w.key);
      },
    });
    const gangs = new GangReconciler({
      caches,
      views,
      actuator,
      log,
      config,
      onRefusal: (key) => this.#hold(key),
    });
    const prewarms = new PrewarmReconciler({
      ...base,
      metrics: numbers,
      planner: this.#planner,
      lookups: new Lookups(facts, credentials),
      variants: new RecordedVariants(facts, credentials),
      events: options.events,
      log,
      readWorkload: workloadReader(client),
    });
    const warmth = new GangWarmth({ views, guard, planner: this.#planner, clock });
    const counts = new HoldCounts({ caches, leading: options.leading, clock, metrics });
    this.#counts = counts;
    new GangPods({ caches, events: options.events, config, leading: options.leading, namespace, clock, log, metrics });
    const checks = new KueueCheckReconciler({ ...base, warmth, counts });
    const gates = new GatedJobsReconciler({ ...base, client, warmth, counts, events: options.events, log });
    const admissionChecks = new AdmissionCheckReconciler(base);
    const policies = new PolicyReconciler({ caches, actuator, mode: () => config().mode, clock });
    const queue = (
      name: string,
      concurrency: number,
      reconcile: (key: string) => Promise<Result>,
      more: { longestRetryMs?: number } = {},
    ): WorkQueue => new WorkQueue({ name, concurrency, reconcile, clock, log, metrics, ...more });
    // However often a write fails: what holds a gang ends soon after its time.
    const holds = { longestRetryMs: HOLD_LOOK_MS };
    // Nothing is said about a gang before all is known that decides about it; `lead` brings every key back then.
    const whenKnown =
      (known: (gang: Gang | undefined) => boolean, reconcile: (key: string) => Promise<Result>) =>
      async (key: string): Promise<Result> => {
        const gang = views.gangOf(key);
        if (!known(gang)) return {};
        return gang !== undefined && views.awaitsOwner(gang, clock.now()) ? { after: OWNER_LOOK_MS } : reconcile(key);
      };
    this.#queues = {
      plan: queue('plan', 1, () => this.#planner.reconcile()),
      gangs: queue(
        'gangs',
        4,
        whenKnown(
          (gang) => views.isKnown(gang),
          (key) => gangs.reconcile(key),
        ),
      ),
      prewarms: queue('prewarms', 8, async (key) => {
        const prewarm = caches.prewarms.get(key);
        return prewarm !== undefined && views.isUnknown(prewarm) ? {} : prewarms.reconcile(key);
      }),
      checks: queue(
        'checks',
        8,
        whenKnown(
          () => caches.checksKnown,
          (key) => checks.reconcile(key),
        ),
        holds,
      ),
      gates: queue(
        'gates',
        2,
        whenKnown(
          () => caches.checksKnown,
          (key) => gates.reconcile(key),
        ),
        holds,
      ),
      admissionChecks: queue('admission-checks', 1, (key) => admissionChecks.reconcile(key)),
      policies: queue('policies', 1, (key) => policies.reconcile(key)),
      nodeClasses: queue('node-classes', 1, async () => {
        const result = await nodeClasses.reconcile();
        this.#reviseVariants();
        return result;
      }),
    };
    this.#wire();
  }

  /** Starts following the cluster; nothing is written before `lead`. A standby replica is warm when its turn comes. */
  follow(): void {
    this.#caches.start();
  }

  /** Begins to act, once everything is known that planning needs. */
  async lead(): Promise<void> {
    await this.#caches.coreSynced();
    for (const queue of Object.values(this.#queues)) queue.start();
    this.#counts.start();
    this.#queues.plan.add(PLAN);
    this.#queues.nodeClasses.add(NODES);
    // Not awaited: without Kueue these never come, and prewarms made by hand need none of it.
    void this.#caches.checksSynced().then(() => {
      for (const { key } of this.#caches.workloads.list()) this.#hold(key);
    });
    void this.#caches.gangsSynced().then(() => this.reconsider());
  }

  async stop(): Promise<void> {
    this.#counts.stop();
    await Promise.all(Object.values(this.#queues).map((q) => q.stop()));
    await this.#caches.stop();
  }

  /** A new configuration can change every answer. */
  reconsider(): void {
    this.#plan();
    this.#queues.nodeClasses.add(NODES);
    for (const prewarm of this.#caches.prewarms.list()) this.#queues.prewarms.add(keyOf(prewarm));
    this.#caches.owners.reconsider();
    for (const workload of this.#caches.workloads.list()) this.#workload(workload.key);
    for (const { gang } of this.#caches.owners.gangs()) this.#queues.gangs.add(gang.key);
    for (const check of this.#caches.checks.list()) this.#queues.admissionChecks.add(check.name);
    for (const { reading } of this.#caches.policies.list())
      this.#queues.policies.add(reading.ok ? reading.policy.name : reading.name);
  }

  /** Why the controller cannot do its work, one line each; `needed` leaves out what only gangs in Kueue's queues need. */
  problems(which: 'all' | 'needed' = 'all'): string[] {
    return [...this.#caches.problems(which), ...(this.#planner.problem === undefined ? [] : [this.#planner.problem])];
  }

  #wire(): void {
    const { nodes, pods, sets, prewarms, workloads, owners, namespaces, checks, checkConfigs, policies } = this.#caches;
    const { clusterQueues, localQueues, flavors, rejections, runtimeClasses, accelerated, gangCounts } = this.#caches;
    const plan = (): void => this.#plan();
    const all = (): void => this.reconsider();
    for (const cache of [pods, sets, rejections]) cache.onChange(plan);
    nodes.onChange((_key, now, before) => {
      if (!isSameForPlans(now, before)) plan();
    });
    const classes = (): void => {
      this.#nodesChanged = true;
      this.#queues.nodeClasses.addAfter(NODES, NODES_DELAY_MS);
    };
    for (const cache of [runtimeClasses, flavors]) cache.onChange(classes);
    // Heartbeats come from every node and change no class; how old they are is looked at by the clock.
    nodes.onChange((_key, now, before) => {
      if (classEssence(now) !== classEssence(before)) classes();
      if (now?.labels[HOSTNAME] !== before?.labels[HOSTNAME])
        for (const w of workloads.byIndex('hosts', 'assigned')) this.#queues.gangs.add(w.key);
    });
    accelerated.onChange((_key, now, before) => {
      if (now === undefined || !this.#failures.note(now, before)) return;
      this.#nodesChanged = true;
      this.#queues.nodeClasses.add(NODES);
    });
    for (const cache of [clusterQueues, localQueues, flavors, checkConfigs]) cache.onChange(all);
    policies.onChange((name) => {
      this.#queues.policies.add(name);
      plan();
    });
    prewarms.onChange((key, now, before) => {
      plan();
      this.#queues.prewarms.add(key);
      for (const w of this.#workloadsFor(now ?? before)) this.#workload(w.key);
    });
    workloads.onChange((key, now, before) => {
      plan();
      this.#workload(key);
      const gang = (now ?? before)?.gang;
      if (gang !== undefined) this.#gang(key, gang);
    });
    // Pods change all the time; that the last one of a gang runs is rare.
    gangCounts.onChange((at, now, before) => {
      if (this.#views.completes(at, now, before)) plan();
    });
    owners.onChange((now, before) => this.#owner(now, before));
    owners.onServed(all);
    namespaces.onChange((key, now, before) => {
      if (canonical(now) !== canonical(before)) plan();
      for (const w of workloads.byIndex('namespace', key)) this.#workload(w.key);
    });
    checks.onChange((name) => {
      this.#queues.admissionChecks.add(name);
      all();
    });
  }

  /** What a Workload that came, went or changed means for others. */
  #gang(key: string, gang: Gang): void {
    const { owners, workloads } = this.#caches;
    for (const ref of [gang.ref, ...(gang.owners ?? [])]) {
      owners.named(ref);
      const alone = owners.gang(ref, gang.namespace)?.gang.key;
      if (alone !== undefined) this.#queues.gangs.add(alone);
    }
    // Of several Workloads of one job the next in line speaks for it when one goes.
    for (const w of workloads.byIndex('job', gangIndex(gang.namespace, gang.ref.uid))) if (w.key !== key) this.#workload(w.key);
    const prewarm = this.#views.prewarmOf(gang);
    if (prewarm !== undefined) this.#queues.prewarms.add(keyOf(prewarm));
  }

  /** An owner may opt gangs in and out, and be one. */
  #owner(now: OwnerView | undefined, before: OwnerView | undefined): void {
    const gang = (now ?? before)?.gang;
    if (canonical(now?.annotations) !== canonical(before?.annotations) || gang !== undefined) this.#plan();
    const owned = now === undefined ? undefined : gangIndex(now.namespace, now.uid);
    if (owned !== undefined) for (const w of this.#caches.workloads.byIndex('owner', owned)) this.#workload(w.key);
    if (gang === undefined) return;
    this.#queues.gangs.add(gang.key);
    const prewarm = this.#views.prewarmOf(gang);
    if (prewarm !== undefined) this.#queues.prewarms.add(keyOf(prewarm));
  }

  /** Other nodes, or nodes that cannot pull a variant, can mean that gangs must not be given the one on their record. */
  #reviseVariants(): void {
    if (!this.#nodesChanged) return;
    this.#nodesChanged = false;
    for (const prewarm of this.#caches.prewarms.list()) {
      const images = prewarm.status?.targets?.flatMap((t) => t.images) ?? [];
      if (images.some((i) => i.outcome === 'accelerated')) this.#queues.prewarms.add(keyOf(prewarm));
    }
  }

  /** Workloads of the job that an ImagePrewarm is for. */
  #workloadsFor(prewarm: ImagePrewarm | undefined): WorkloadView[] {
    const uid = prewarm?.spec.gangRef?.uid;
    return uid === undefined ? [] : this.#caches.workloads.byIndex('job', gangIndex(prewarm?.metadata.namespace, uid));
  }

  #workload(key: string): void {
    this.#queues.gangs.add(key);
    this.#hold(key);
  }

  /** Whatever may keep a gang from starting. */
  #hold(key: string): void {
    this.#queues.checks.add(key);
    this.#queues.gates.add(key);
  }

  #plan(): void {
    // At least so long: changes come in crowds.
    this.#queues.plan.addAfter(PLAN, Math.min(MAX_PLAN_DELAY_MS, Math.max(PLAN_DELAY_MS, PLAN_PAUSE * this.#planner.lastMs)));
  }
}
