import type { Json } from '../api/json.js';
import { at, present, string, stringMap } from '../api/json.js';
import type { PrewarmCheckConfigSpec } from '../api/kinds/prewarm-check-config.js';
import type { ImagePrewarm } from '../api/kinds/index.js';
import { CHECK_CONTROLLER, LABEL } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import { gangIndex, gangKeys } from '../gangs/identity.js';
import type { WatchPort } from '../kube/client.js';
import type { DiscoveryPort } from '../kube/port.js';
import type { RawObject } from '../kube/reflector.js';
import { Reflector } from '../kube/reflector.js';
import type { Resource } from '../kube/resources.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { RuntimeClassFacts } from '../placement/capability.js';
import { runtimeClassFacts } from '../placement/capability.js';
import { GangCounts } from './gangs/pod-counts.js';
import type { NodeFacts } from '../placement/node-facts.js';
import { nodeFacts } from '../placement/node-facts.js';
import { projectPullerPod, projectPullerSet } from '../preheat/backends/daemonset/project.js';
import type { PodUse } from '../placement/usage.js';
import { NodeUsage } from '../placement/usage.js';
import type { PullerPod } from '../preheat/evidence.js';
import type { PullerSet } from '../preheat/world.js';
import type { FlavorView, LocalQueueView, WorkloadView } from './gangs/sources/kueue.js';
import { flavorsOfQueue, projectFlavor, projectLocalQueue, projectWorkload } from './gangs/sources/kueue.js';
import { PodUsages } from './nodes/pod-usage.js';
import { Owners } from './gangs/sources/owners.js';
import type { PolicyView } from './policies.js';
import { projectPolicy } from './policies.js';
import type { Told } from './pullers/rejections.js';
import { told } from './pullers/rejections.js';
import type { AcceleratedPod } from './images/variant-failures.js';
import { projectAccelerated } from './images/variant-failures.js';

export interface NamespaceView {
  name: string;
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
  terminating: boolean;
}

export interface CheckView {
  name: string;
  controllerName: string;
  /** `kind/name` of the parameters, where there are any. */
  parameters?: { apiGroup: string; kind: string; name: string };
  conditions: Json[];
}

/** What the DaemonSet controller last complained about, by UID of the DaemonSet. */
export interface RejectionView extends Told {
  set: string;
}

export interface CachesOptions {
  client: WatchPort;
  namespace: string;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** See OwnersOptions. */
  discovery?: DiscoveryPort | undefined;
  withoutKueue?: (() => readonly string[]) | undefined;
}

function projectCheck(raw: RawObject): CheckView {
  const spec = at(raw, 'spec');
  const parameters = at(spec, 'parameters');
  const name = string(parameters['name']);
  return present<CheckView>({
    name: raw.metadata.name,
    controllerName: string(spec['controllerName']) ?? '',
    parameters:
      name === undefined
        ? undefined
        : { apiGroup: string(parameters['apiGroup']) ?? '', kind: string(parameters['kind']) ?? '', name },
    conditions: (at(raw, 'status')['conditions'] as Json[] | undefined) ?? [],
  });
}

function projectNamespace(raw: RawObject): NamespaceView {
  const { name, labels, annotations, deletionTimestamp } = raw.metadata;
  return { name, labels: stringMap(labels), annotations: stringMap(annotations), terminating: deletionTimestamp !== undefined };
}

function projectRejection(raw: RawObject): RejectionView {
  return { set: string(at(raw, 'regarding')['uid']) ?? '', ...told(raw) };
}

const HOSTNAME = 'kubernetes.io/hostname';

/** Everything the controller knows of the cluster. All state is here and can be read again: nothing else survives a restart. */
export class Caches {
  readonly nodes: Reflector<NodeFacts>;
  readonly runtimeClasses: Reflector<RuntimeClassFacts>;
  readonly namespaces: Reflector<NamespaceView>;
  readonly owners: Owners;
  readonly prewarms: Reflector<ImagePrewarm>;
  readonly policies: Reflector<PolicyView>;
  readonly sets: Reflector<PullerSet>;
  readonly pods: Reflector<PullerPod>;
  /** Pods of all namespaces that run a variant. */
  readonly accelerated: Reflector<AcceleratedPod>;
  /** Every Pod of the cluster, for what it takes of its node. */
  readonly usage: Reflector<PodUse>;
  /** Sums of it by node. */
  readonly nodeUsage = new NodeUsage();
  /** Sums of it by gang. */
  readonly gangCounts = new GangCounts();
  readonly rejections: Reflector<RejectionView>;
  readonly workloads: Reflector<WorkloadView>;
  readonly clusterQueues: Reflector<{ name: string; flavors: string[] }>;
  readonly localQueues: Reflector<LocalQueueView>;
  readonly flavors: Reflector<FlavorView>;
  readonly checks: Reflector<CheckView>;
  readonly checkConfigs: Reflector<{ name: string; spec: PrewarmCheckConfigSpec }>;
  readonly #all: Reflector<unknown>[] = [];
  /** Kueue may be absent or come later: prewarms made by hand need none of its objects. */
  readonly #optional = new Set<Reflector<unknown>>();

  constructor(options: CachesOptions) {
    const { namespace, discovery, withoutKueue = () => [], ...base } = options;
    const follow = <T>(
      resource: Resource,
      project: (raw: RawObject) => T,
      more: Partial<ConstructorParameters<typeof Reflector<T>>[0]> = {},
    ): Reflector<T> => {
      const reflector = new Reflector<T>({ ...base, resource, project, ...more });
      this.#all.push(reflector as Reflector<unknown>);
      return reflector;
    };
    // In all namespaces: those of tenants have pullers too. The label proves nothing there; see preheat/ownership.ts.
    const pullers = { labelSelector: LABEL.puller };
    this.nodes = follow(RESOURCE.nodes, nodeFacts, { indexes: { hostname: ({ labels }) => [labels[HOSTNAME] ?? ''] } });
    this.runtimeClasses = follow(RESOURCE.runtimeClasses, runtimeClassFacts);
    this.namespaces = follow(RESOURCE.namespaces, projectNamespace);
    this.owners = new Owners({ ...base, discovery, generic: withoutKueue });
    this.prewarms = follow(RESOURCE.imagePrewarms, (raw) => withoutManagedFields(raw) as unknown as ImagePrewarm, {
      indexes: {
        gang: ({ spec, metadata }) =>
          spec.gangRef === undefined ? [] : gangKeys(spec.gangRef).map((key) => gangIndex(metadata.namespace, key)),
      },
    });
    this.policies = follow(RESOURCE.accelerationPolicies, projectPolicy);
    this.sets = follow(RESOURCE.daemonSets, projectPullerSet, pullers);
    this.pods = follow(RESOURCE.pods, projectPullerPod, { ...pullers, indexes: { node: (p) => [p.node] } });
    this.accelerated = follow(RESOURCE.pods, projectAccelerated, { labelSelector: LABEL.accelerated });
    this.usage = follow(RESOURCE.pods, new PodUsages().project);
    this.usage.onChange((_key, now, before) => {
      this.nodeUsage.note(now, before);
      this.gangCounts.note(now, before);
    });
    this.rejections = follow(RESOURCE.events, projectRejection, {
      namespace,
      // A Normal one for each Pod that was made is no complaint, and there are many.
      fieldSelector: 'regarding.kind=DaemonSet,type=Warning',
      indexes: { set: (r) => [r.set] },
    });
    this.workloads = follow(RESOURCE.workloads, projectWorkload, {
      indexes: {
        job: ({ gang }) => [gangIndex(gang.namespace, gang.ref.uid)],
        owner: ({ gang }) => [gang.ref, ...(gang.owners ?? [])].map((o) => gangIndex(gang.namespace, o.uid)),
        namespace: (w) => [w.gang.namespace],
        // Whose nodes are named by a label: these may come, go, and change their names.
        hosts: (w) => (w.gang.podSets.some((p) => p.assignment?.levels.at(-1) === HOSTNAME) ? ['assigned'] : []),
      },
    });
    this.clusterQueues = follow(RESOURCE.clusterQueues, (raw) => ({ name: raw.metadata.name, flavors: flavorsOfQueue(raw) }));
    this.localQueues = follow(RESOURCE.localQueues, projectLocalQueue);
    this.flavors = follow(RESOURCE.resourceFlavors, projectFlavor);
    this.checks = follow(RESOURCE.admissionChecks, projectCheck);
    for (const cache of [this.workloads, this.clusterQueues, this.localQueues, this.flavors, this.checks])
      this.#optional.add(cache as Reflector<unknown>);
    this.checkConfigs = follow(RESOURCE.prewarmCheckConfigs, (raw) => ({
      name: raw.metadata.name,
      spec: raw['spec'] as PrewarmCheckConfigSpec,
    }));
  }

  start(): void {
    for (const reflector of this.#all) reflector.start();
    this.owners.start();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#all, this.owners].map((r) => r.stop()));
  }

  /**
   * Resolves when all is known without which nothing may be planned: what exists would look like what nobody wants, and gangs
   * whose Jobs are not known would look not opted in. Kueue's objects are left out; see gangsKnown.
   */
  async coreSynced(): Promise<void> {
    const core = [
      this.nodes,
      this.namespaces,
      this.owners,
      this.prewarms,
      this.policies,
      this.checkConfigs,
      this.sets,
      this.pods,
      this.usage,
    ];
    await Promise.all(core.map((r) => r.synced));
  }

  /** Resolves when checks can be answered; never while Kueue is not installed. */
  async checksSynced(): Promise<void> {
    await Promise.all([this.workloads.synced, this.checks.synced]);
  }

  /** Whether checks can be answered. Queues and flavors have no say in that: a list of them that fails must hold nobody. */
  get checksKnown(): boolean {
    return this.workloads.hasSynced && this.checks.hasSynced;
  }

  /** Resolves when all of Kueue is known that decides about gangs; never while Kueue is not installed. */
  async gangsSynced(): Promise<void> {
    await Promise.all([...this.#optional].map((r) => r.synced));
  }

  /** Whether gangs can be judged: with one of these missing they look finished, unqueued, or at home on other nodes. */
  get gangsKnown(): boolean {
    return [...this.#optional].every((r) => r.hasSynced);
  }

  /** Why parts of the picture are missing, one line each; empty when all is known. */
  problems(which: 'all' | 'needed' = 'all'): string[] {
    const asked = which === 'all' ? this.#all : this.#all.filter((r) => !this.#optional.has(r));
    const ofOwners = which === 'all' ? this.owners.problems() : [];
    return [...asked.flatMap((r) => (r.problem === undefined ? [] : [r.problem])), ...ofOwners];
  }

  /** AdmissionChecks that are ours to answer. */
  ownChecks(): CheckView[] {
    return this.checks.list().filter((c) => c.controllerName === CHECK_CONTROLLER);
  }
}

function withoutManagedFields(raw: KubeObject): KubeObject {
  const metadata = { ...raw.metadata } as KubeObject['metadata'] & { managedFields?: unknown };
  delete metadata.managedFields;
  return { ...raw, metadata };
}
