import { keyOf } from '../api/object.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { WatchPort } from '../kube/client.js';
import type { EventRecorder } from '../kube/events.js';
import type { KubePort } from '../kube/port.js';
import type { Result } from '../kube/work-queue.js';
import { WorkQueue } from '../kube/work-queue.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { classEssence } from '../placement/classify.js';
import type { ActuatorOptions } from './actions.js';
import { Actuator } from './actions.js';
import { Caches } from './caches.js';
import { canonical } from './decide-gang.js';
import { GangCredentials } from './gang-credentials.js';
import { GangViews } from './gang-views.js';
import { GangReconciler } from './gangs.js';
import { Guard } from './guard.js';
import { AdmissionCheckReconciler } from './holds/admission-checks.js';
import { KueueCheckReconciler } from './holds/kueue-check.js';
import { workloadReader } from './live.js';
import { Lookups } from './lookups.js';
import { NodeClassesReconciler } from './node-classes.js';
import { PrewarmMetrics } from './metrics.js';
import { PlannerLoop } from './planner-loop.js';
import { PolicyReconciler } from './policies.js';
import { PrewarmReconciler } from './prewarm/reconciler.js';
import { rejectionReader } from './puller-rejections.js';
import { RecordedVariants } from './recorded-variants.js';
import { VariantFailures } from './variant-failures.js';

export interface ManagerOptions {
  client: KubePort & WatchPort;
  registry: () => RegistryPort;
  config: () => HarbingerConfig;
  events: EventRecorder;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  namespace: string;
  pullerImage: string;
  leading: ActuatorOptions['leading'];
  failpoint: ActuatorOptions['failpoint'];
}

/** Changes that come within this time are planned together, ms: a plan looks at everything. */
const PLAN_DELAY_MS = 200;
const PLAN = 'plan';
/** Changes of nodes that come within this time are published together, ms. */
const NODES_DELAY_MS = 1_000;
const NODES = 'nodes';
/** A gang whose Job has not been seen yet is looked at again after this time if no event came, ms. */
const JOB_LOOK_MS = 1_000;

/** Wires caches, queues and reconcilers of the controller. All state is in the API server: a new manager goes on where another one ended. */
export class Manager {
  readonly #caches: Caches;
  readonly #views: GangViews;
  readonly #planner: PlannerLoop;
  readonly #failures: VariantFailures;
  /** Since variants on record were judged last. */
  #nodesChanged = false;
  readonly #queues: {
    plan: WorkQueue;
    gangs: WorkQueue;
    prewarms: WorkQueue;
    checks: WorkQueue;
    admissionChecks: WorkQueue;
    policies: WorkQueue;
    nodeClasses: WorkQueue;
  };

  constructor(options: ManagerOptions) {
    const { client, clock, log, metrics, namespace, config } = options;
    const caches = new Caches({ client, namespace, clock, log, metrics });
    const views = new GangViews(caches);
    const actuator = new Actuator({ client, log, metrics, leading: options.leading, failpoint: options.failpoint });
    const guard = new Guard(clock);
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
      log,
      metrics: numbers,
      namespace,
      program: options.pullerImage,
      readRejection: rejectionReader(client),
      onChange: (key) => this.#queues.prewarms.add(key),
    });
    const gangs = new GangReconciler({
      caches,
      views,
      actuator,
      log,
      mode: () => config().mode,
      onRefusal: (key) => this.#queues.checks.add(key),
    });
    const prewarms = new PrewarmReconciler({
      ...base,
      metrics: numbers,
      planner: this.#planner,
      lookups: new Lookups(facts, credentials),
      variants: new RecordedVariants(facts, credentials),
      events: options.events,
      readWorkload: workloadReader(client),
    });
    const checks = new KueueCheckReconciler({ ...base, planner: this.#planner });
    const admissionChecks = new AdmissionCheckReconciler(base);
    const policies = new PolicyReconciler({ caches, actuator, mode: () => config().mode, clock });
    const queue = (name: string, concurrency: number, reconcile: (key: string) => Promise<Result>): WorkQueue =>
      new WorkQueue({ name, concurrency, reconcile, clock, log, metrics });
    // Nothing is said about a gang before all is known that decides about it; `lead` brings every key back then.
    const whenKnown =
      (known: () => boolean, reconcile: (key: string) => Promise<Result>) =>
      async (key: string): Promise<Result> => {
        const gang = caches.workloads.get(key)?.gang;
        if (!known()) return {};
        return gang !== undefined && views.awaitsJob(gang, clock.now()) ? { after: JOB_LOOK_MS } : reconcile(key);
      };
    this.#queues = {
      plan: queue('plan', 1, () => this.#planner.reconcile()),
      gangs: queue(
        'gangs',
        4,
        whenKnown(
          () => caches.gangsKnown,
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
    this.#queues.plan.add(PLAN);
    this.#queues.nodeClasses.add(NODES);
    // Not awaited: without Kueue these never come, and prewarms made by hand need none of it.
    void this.#caches.checksSynced().then(() => {
      for (const { key } of this.#caches.workloads.list()) this.#queues.checks.add(key);
    });
    void this.#caches.gangsSynced().then(() => this.reconsider());
  }

  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#queues).map((q) => q.stop()));
    await this.#caches.stop();
  }

  /** A new configuration can change every answer. */
  reconsider(): void {
    this.#plan();
    this.#queues.nodeClasses.add(NODES);
    for (const prewarm of this.#caches.prewarms.list()) this.#queues.prewarms.add(keyOf(prewarm));
    for (const workload of this.#caches.workloads.list()) this.#workload(workload.key);
    for (const check of this.#caches.checks.list()) this.#queues.admissionChecks.add(check.name);
    for (const { reading } of this.#caches.policies.list())
      this.#queues.policies.add(reading.ok ? reading.policy.name : reading.name);
  }

  /** Why the controller cannot do its work, one line each; `needed` leaves out what only gangs in Kueue's queues need. */
  problems(which: 'all' | 'needed' = 'all'): string[] {
    return [...this.#caches.problems(which), ...(this.#planner.problem === undefined ? [] : [this.#planner.problem])];
  }

  #wire(): void {
    const { nodes, pods, sets, prewarms, workloads, jobs, namespaces, checks, checkConfigs, policies } = this.#caches;
    const { clusterQueues, localQueues, flavors, rejections, runtimeClasses, accelerated } = this.#caches;
    const plan = (): void => this.#plan();
    const all = (): void => this.reconsider();
    for (const cache of [nodes, pods, sets, rejections]) cache.onChange(plan);
    const classes = (): void => {
      this.#nodesChanged = true;
      this.#queues.nodeClasses.addAfter(NODES, NODES_DELAY_MS);
    };
    for (const cache of [runtimeClasses, flavors]) cache.onChange(classes);
    // Heartbeats come from every node and change no class; how old they are is looked at by the clock.
    nodes.onChange((_key, now, before) => {
      if (classEssence(now) !== classEssence(before)) classes();
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
      const uid = (now ?? before)?.spec.gangRef?.uid;
      if (uid !== undefined) for (const w of workloads.byIndex('job', uid)) this.#workload(w.key);
    });
    workloads.onChange((key, now, before) => {
      plan();
      this.#workload(key);
      const gang = (now ?? before)?.gang;
      // Of several Workloads of one job the next in line speaks for it when one goes.
      for (const w of gang === undefined ? [] : workloads.byIndex('job', gang.ref.uid)) if (w.key !== key) this.#workload(w.key);
      const prewarm = gang === undefined ? undefined : this.#views.prewarmOf(gang);
      if (prewarm !== undefined) this.#queues.prewarms.add(`${prewarm.metadata.namespace ?? ''}/${prewarm.metadata.name}`);
    });
    jobs.onChange((_key, now, before) => {
      if (canonical(now?.annotations) !== canonical(before?.annotations)) plan();
      for (const w of now === undefined ? [] : workloads.byIndex('job', now.uid)) this.#workload(w.key);
    });
    namespaces.onChange((key, now, before) => {
      if (canonical(now) !== canonical(before)) plan();
      for (const w of workloads.byIndex('namespace', key)) this.#workload(w.key);
    });
    checks.onChange((name) => {
      this.#queues.admissionChecks.add(name);
      all();
    });
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

  #workload(key: string): void {
    this.#queues.gangs.add(key);
    this.#queues.checks.add(key);
  }

  #plan(): void {
    this.#queues.plan.addAfter(PLAN, PLAN_DELAY_MS);
  }
}
