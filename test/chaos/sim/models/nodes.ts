import { at, records, stringMap } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { digestOf, holds, imagesOf } from '../../invariants/read.js';
import type { Machine } from './machine.js';
import type { World } from './world.js';
import { RESOURCE, SYSTEM, actor, nameOf, remove } from './world.js';

/** After so long without a word the node controller calls a node unknown, ms. */
const GRACE_MS = 40_000;

/** The node controller and Pod garbage collection. */
export class NodeController {
  readonly #world: World;
  readonly #machines: ReadonlyMap<string, Machine>;

  constructor(world: World, machines: ReadonlyMap<string, Machine>) {
    this.#world = world;
    this.#machines = machines;
    for (const machine of machines.values())
      actor(
        world,
        { watches: [RESOURCE.pods], reactMs: [20, 200], only: ({ object }) => at(object, 'spec')['nodeName'] === machine.name },
        () => machine.sync(),
      );
    actor(world, { watches: [RESOURCE.nodes], reactMs: [1_000, 4_000], everyMs: 20_000 }, () => this.#collect());
  }

  /** The kubelet of a machine is cut off for a time. */
  cutOff(name: string, ms: number): void {
    const machine = this.#machines.get(name);
    if (machine === undefined || machine.silent || machine.gone) return;
    machine.silence();
    this.#world.timeline.after(GRACE_MS, () => {
      if (machine.silent) machine.report(false);
    });
    this.#world.timeline.after(ms, () => machine.speak());
  }

  /** A machine dies; its node object goes, and perhaps another machine takes its name. */
  lose(name: string, { goesAfterMs, backAfterMs }: { goesAfterMs: number; backAfterMs: number }): void {
    const machine = this.#machines.get(name);
    if (machine === undefined || machine.gone) return;
    machine.lose();
    const { timeline, store } = this.#world;
    timeline.after(Math.min(GRACE_MS, goesAfterMs), () => machine.report(false));
    timeline.after(goesAfterMs, () => {
      const node = store.find(RESOURCE.nodes, { name });
      if (node !== undefined) remove(this.#world, RESOURCE.nodes, node);
    });
    timeline.after(goesAfterMs + backAfterMs, () => machine.join());
  }

  /** Pods of nodes that are gone, and those that nobody will end: a dead kubelet removes nothing. */
  #collect(): void {
    const { store } = this.#world;
    for (const pod of store.list(RESOURCE.pods)) {
      const { nodeName } = at(pod, 'spec') as { nodeName?: string };
      if (nodeName === undefined) continue;
      if (store.find(RESOURCE.nodes, { name: nodeName }) === undefined) store.remove(RESOURCE.pods, nameOf(pod));
    }
  }
}

/** Binds Pods: those of DaemonSets to the node that they name, others to a free node that their selector allows. */
export function scheduler(world: World): void {
  const random = world.random.fork();
  actor(world, { watches: [RESOURCE.pods, RESOURCE.nodes], reactMs: [50, 300] }, () => {
    for (const pod of world.store.list(RESOURCE.pods)) {
      if (at(pod, 'spec')['nodeName'] !== undefined || pod.metadata.deletionTimestamp !== undefined) continue;
      const named = namedNode(pod);
      const node = named ?? random.shuffle(freeNodes(world, pod)).sort((a, b) => Number(b.has) - Number(a.has))[0]?.name;
      if (node === undefined || world.store.find(RESOURCE.nodes, { name: node }) === undefined) continue;
      world.store.patch(RESOURCE.pods, nameOf(pod), { type: 'merge', body: { spec: { nodeName: node } } });
    }
  });
}

function namedNode(pod: Raw): string | undefined {
  const required = at(pod, 'spec', 'affinity', 'nodeAffinity', 'requiredDuringSchedulingIgnoredDuringExecution');
  const [field] = records(required['nodeSelectorTerms']).flatMap((t) => records(t['matchFields']));
  return (field?.['values'] as string[] | undefined)?.[0];
}

/** Nodes without another member of a gang; ImageLocality prefers those that ran a puller of the image. */
function freeNodes(world: World, pod: Raw): { name: string; has: boolean }[] {
  const pods = world.store.list(RESOURCE.pods);
  const running = pods.filter(
    (p) => !['Succeeded', 'Failed'].includes((p['status'] as { phase?: string } | undefined)?.phase ?? ''),
  );
  const taken = new Set(running.filter((p) => p.metadata.namespace !== SYSTEM).map((p) => at(p, 'spec')['nodeName']));
  const [image = ''] = imagesOf(pod);
  const selector = Object.entries(stringMap(at(pod, 'spec')['nodeSelector']));
  return world.store
    .list(RESOURCE.nodes)
    .filter((n) => !taken.has(n.metadata.name) && holds(n, 'Ready') && at(n, 'spec')['unschedulable'] !== true)
    .filter((n) => selector.every(([key, value]) => n.metadata.labels?.[key] === value))
    .map((n) => ({ name: n.metadata.name, has: digestOf(image) !== undefined && pullsOn(pods, n.metadata.name, image) }));
}

function pullsOn(pods: readonly Raw[], node: string, image: string): boolean {
  return pods.some((p) => at(p, 'spec')['nodeName'] === node && JSON.stringify(p['spec']).includes(image));
}

/** The DaemonSet controller, as far as sets go that name their nodes: one Pod on each, none elsewhere. */
export function daemonSets(world: World): void {
  actor(world, { watches: [RESOURCE.daemonSets, RESOURCE.pods, RESOURCE.nodes], reactMs: [100, 900] }, () => {
    const pods = world.store.list(RESOURCE.pods);
    for (const set of world.store.list(RESOURCE.daemonSets)) {
      if (set.metadata.deletionTimestamp !== undefined) continue;
      const own = pods.filter((p) => p.metadata.ownerReferences?.some((o) => o.uid === set.metadata.uid));
      const wanted = new Set(nodesOf(set).filter((name) => world.store.find(RESOURCE.nodes, { name }) !== undefined));
      const alive = own.filter((p) => p.metadata.deletionTimestamp === undefined);
      for (const pod of alive) if (!wanted.has(namedNode(pod) ?? '')) remove(world, RESOURCE.pods, pod);
      const covered = new Set(own.map(namedNode));
      const byHand = world.byHand.nodes.get(set.metadata.uid ?? '');
      for (const name of wanted) {
        if (covered.has(name)) continue;
        const { uid = '' } = world.store.create(RESOURCE.pods, podOf(set, name)).metadata;
        if (byHand?.delete(name) === true) world.byHand.pods.add(uid);
      }
      if (byHand !== undefined) forgetTaken(byHand, { set, alive, wanted });
    }
  });
}

/** Where a node is away, or its last Pod still ends, the Pod that a person asked for comes later; elsewhere any later one is another's doing. */
function forgetTaken(byHand: Set<string>, { set, alive, wanted }: { set: Raw; alive: Raw[]; wanted: ReadonlySet<string> }): void {
  const named = new Set(nodesOf(set));
  const served = new Set(alive.map(namedNode).filter((name = '') => wanted.has(name)));
  for (const name of byHand) if (!named.has(name) || served.has(name)) byHand.delete(name);
}

export function nodesOf(set: Raw): string[] {
  const required = at(
    set,
    'spec',
    'template',
    'spec',
    'affinity',
    'nodeAffinity',
    'requiredDuringSchedulingIgnoredDuringExecution',
  );
  const fields = records(required['nodeSelectorTerms']).flatMap((t) => records(t['matchFields']));
  return fields.flatMap((f) => f['values'] as string[]);
}

function podOf(set: Raw, node: string): Raw {
  const { name, namespace = '', uid = '' } = set.metadata;
  const template = at(set, 'spec', 'template');
  const terms = [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }];
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      generateName: `${name}-`,
      namespace,
      labels: stringMap(at(template, 'metadata')['labels']),
      ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: { ...at(template, 'spec'), affinity },
  } as unknown as Raw;
}

const COLLECTED = [RESOURCE.pods, RESOURCE.daemonSets, RESOURCE.imagePrewarms, RESOURCE.workloads, RESOURCE.jobs];

/** Deletes what all owners of which are gone, as far as it has heard of that. */
export class Collector {
  readonly #world: World;
  /** UIDs of DaemonSets that are gone and of which it believes that they were changed. */
  readonly #ghosts = new Set<string>();
  /** DaemonSets as it saw them last, UIDs by name; only while it is away. */
  #seen: ReadonlyMap<string, string> | undefined;

  constructor(world: World) {
    this.#world = world;
    const only = ({ type }: { type: string }): boolean => type === 'DELETED' || type === 'ADDED';
    actor(world, { watches: COLLECTED, reactMs: [200, 2_000], only }, () => this.#run());
  }

  /**
   * Its watches are cut for a while. A set that was made again meanwhile is to it the old one changed, so that Pods of the old one stay
   * for good (GraphBuilder.processGraphChanges of kube-controller-manager).
   */
  away(ms: number): boolean {
    if (this.#seen !== undefined) return false;
    this.#seen = this.#sets();
    this.#world.timeline.after(ms, () => {
      const now = this.#sets();
      for (const [name, uid] of this.#seen ?? []) if (now.has(name) && now.get(name) !== uid) this.#ghosts.add(uid);
      this.#seen = undefined;
      this.#run();
    });
    return true;
  }

  #sets(): Map<string, string> {
    const sets = this.#world.store.list(RESOURCE.daemonSets);
    return new Map(sets.map(({ metadata: { namespace = '', name, uid = '' } }) => [`${namespace}/${name}`, uid]));
  }

  #run(): void {
    if (this.#seen !== undefined) return;
    const uids = new Set([...this.#world.store.all().map((o) => o.metadata.uid ?? ''), ...this.#ghosts]);
    for (const resource of COLLECTED) {
      for (const object of this.#world.store.list(resource)) {
        const owners = object.metadata.ownerReferences ?? [];
        if (owners.length > 0 && owners.every((o) => !uids.has(o.uid ?? ''))) remove(this.#world, resource, object);
      }
    }
  }
}
