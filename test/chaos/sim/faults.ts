import type { HarbingerConfig } from '../../../src/config/schema.js';
import type { Raw } from '../invariants/history.js';
import { reservedAt } from '../invariants/read.js';
import type { CallFault } from './client.js';
import type { Kueue } from './models/kueue.js';
import type { Machine } from './models/machine.js';
import type { Collector, NodeController } from './models/nodes.js';
import { nodesOf } from './models/nodes.js';
import type { World } from './models/world.js';
import { NS, RESOURCE, SYSTEM, nameOf, remove } from './models/world.js';
import type { Controller, Webhook } from './processes.js';
import type { Random } from './random.js';
import { IMAGES, moveTag } from './wishes.js';

/** All that faults can reach. */
export interface Ground {
  world: World;
  random: Random;
  controllers: readonly Controller[];
  webhooks: readonly Webhook[];
  machines: ReadonlyMap<string, Machine>;
  nodes: NodeController;
  collector: Collector;
  kueue: Kueue;
  /** Calls to the API server are troubled until a time. */
  trouble: { until: number; fault: CallFault | undefined; share: number };
  /** In which mode Harbinger is. */
  setting: { mode: HarbingerConfig['mode'] };
}

/** Does one fault; false where there was nothing that it could hit. */
export type Fault = (ground: Ground) => boolean;

const leader = ({ controllers }: Ground): Controller | undefined =>
  controllers.find((c) => c.leading && c.runsSince !== undefined);
const clients = ({ controllers, webhooks }: Ground) => [...controllers, ...webhooks].flatMap((r) => r.client ?? []);
const machine = ({ machines, random }: Ground): string => random.pick([...machines.keys()]) ?? '';

const crash: Fault = (ground) => {
  const found = leader(ground);
  found?.crash();
  return found !== undefined;
};

/** Both replicas are away for longer than holds may last without a stamp: only the watchdog is left. */
const deadForLong: Fault = ({ controllers, random }) => {
  for (const controller of controllers) controller.crash(random.int(100_000, 240_000));
  return true;
};

const freeze: Fault = (ground) => {
  const host = leader(ground)?.host;
  host?.freeze(ground.random.int(3_000, 60_000));
  return host !== undefined;
};

/** Longest time for which a clock is wrong, ms. */
export const LONGEST_JUMP_MS = 90_000;

const clockJump: Fault = (ground) => {
  const host = leader(ground)?.host;
  if (host === undefined) return false;
  host.skewMs = ground.random.pick([-3_600_000, -100_000, -20_000, 20_000, 60_000, 600_000, 3 * 3_600_000]) ?? 0;
  ground.world.timeline.after(ground.random.int(5_000, LONGEST_JUMP_MS), () => (host.skewMs = 0));
  return true;
};

const killWebhook: Fault = ({ webhooks, random }) => {
  // One lives: that is the promise.
  if (webhooks.some((w) => w.client === undefined)) return false;
  random.pick(webhooks)?.crash();
  return true;
};

const breakWatches: Fault = (ground) => clients(ground).reduce((sum, c) => sum + c.breakWatches(), 0) > 0;

const expireWatches: Fault = (ground) => {
  ground.world.store.compactedAt = ground.world.store.version;
  return clients(ground).reduce((sum, c) => sum + c.expireWatches(), 0) > 0;
};

const stallWatches: Fault = (ground) => {
  const client = leader(ground)?.client;
  client?.stall(ground.random.int(2_000, MAX_STALL_MS));
  return client !== undefined;
};

/** Longest time for which a watch is silent, ms. */
export const MAX_STALL_MS = 60_000;

const troubled =
  (fault: CallFault, ms: readonly [number, number], share: number): Fault =>
  ({ world, random, trouble }) => {
    Object.assign(trouble, { until: world.timeline.now + random.int(...ms), fault, share });
    return true;
  };

const registry =
  (trouble: 'denied' | 'gone' | 'down'): Fault =>
  ({ world, random }) => {
    const repository = random.pick(IMAGES) ?? IMAGES[0];
    world.registry.trouble(repository, trouble);
    world.timeline.after(random.int(10_000, 120_000), () => world.registry.trouble(repository, undefined));
    return true;
  };

const cutOff: Fault = (ground) => {
  ground.nodes.cutOff(machine(ground), ground.random.int(10_000, 120_000));
  return true;
};

const lose: Fault = (ground) => {
  const name = machine(ground);
  if (ground.machines.get(name)?.gone !== false || ground.machines.get(name)?.silent === true) return false;
  ground.nodes.lose(name, { goesAfterMs: ground.random.int(5_000, 60_000), backAfterMs: ground.random.int(2_000, 60_000) });
  return true;
};

const cordon: Fault = (ground) => {
  const { world, random } = ground;
  const name = machine(ground);
  const set = (unschedulable: boolean): void => {
    if (world.store.find(RESOURCE.nodes, { name }) !== undefined)
      world.store.patch(RESOURCE.nodes, { name }, { type: 'merge', body: { spec: { unschedulable } } });
  };
  set(true);
  world.timeline.after(random.int(10_000, 90_000), () => set(false));
  return true;
};

const restartKubelet: Fault = (ground) => {
  const found = ground.machines.get(machine(ground));
  if (found === undefined || found.gone) return false;
  found.restartKubelet();
  return true;
};

const collectImages: Fault = ({ machines }) =>
  [...machines.values()].filter((m) => !m.gone).reduce((sum, m) => sum + m.collectGarbage(), 0) > 0;

const evict: Fault = ({ kueue, random }) => {
  const found = random.pick(kueue.workloads().filter((w) => reservedAt(w) !== undefined));
  return found !== undefined && kueue.evict(found, random.pick(['Preempted', 'PodsReadyTimeout'] as const) ?? 'Preempted');
};

const staleQueue: Fault = ({ kueue, random }) => random.shuffle(kueue.workloads()).some((w) => kueue.writeStale(w));

const ours = ({ world }: Ground): Raw[] => world.store.list(RESOURCE.daemonSets, SYSTEM);

const deleteSet: Fault = (ground) => {
  const set = ground.random.pick(ours(ground));
  if (set !== undefined) remove(ground.world, RESOURCE.daemonSets, set);
  return set !== undefined;
};

/** As after a restart of the API server. Somebody deletes a set meanwhile, or it would hardly ever matter. */
const collectorAway: Fault = (ground) => {
  const away = ground.collector.away(ground.random.int(5_000, 60_000));
  return away && deleteSet(ground);
};

const editSet: Fault = (ground) => {
  const set = ground.random.pick(ours(ground));
  if (set === undefined) return false;
  const node = machine(ground);
  if (!nodesOf(set).includes(node)) ground.world.byHand.nodes.set(set.metadata.uid ?? '', new Set([node]));
  const terms = [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }];
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } };
  ground.world.store.patch(RESOURCE.daemonSets, nameOf(set), {
    type: 'merge',
    body: { spec: { template: { spec: { affinity } } } },
  });
  return true;
};

const deletePuller: Fault = ({ world, random }) => {
  const pod = random.pick(world.store.list(RESOURCE.pods, SYSTEM));
  if (pod !== undefined) remove(world, RESOURCE.pods, pod);
  return pod !== undefined;
};

const deletePrewarm: Fault = ({ world, random }) => {
  const found = random.pick(world.store.list(RESOURCE.imagePrewarms, NS).filter((p) => p.metadata.ownerReferences !== undefined));
  if (found !== undefined) remove(world, RESOURCE.imagePrewarms, found);
  return found !== undefined;
};

const wipeStatus: Fault = ({ world, random }) => {
  const found = random.pick(world.store.list(RESOURCE.workloads, NS).filter((w) => reservedAt(w) === undefined));
  if (found === undefined) return false;
  const annotations = { 'harbinger.dev/hold-deadline': '2020-01-01T00:00:00Z' };
  world.store.patch(RESOURCE.workloads, nameOf(found), { type: 'merge', body: { metadata: { annotations } } });
  return true;
};

const absentKinds: Fault = ({ world, random }) => {
  const resource = random.pick([RESOURCE.accelerationPolicies, RESOURCE.runtimeClasses]) ?? RESOURCE.runtimeClasses;
  world.store.serve(resource, false);
  world.timeline.after(random.int(5_000, 40_000), () => world.store.serve(resource, true));
  return true;
};

/** Replicas read their file at different moments. */
export function switchMode({ world, random, controllers, setting }: Ground, mode: HarbingerConfig['mode']): void {
  setting.mode = mode;
  for (const controller of controllers) world.timeline.after(random.int(0, 3_000), () => controller.reconsider());
}

const otherMode: Fault = (ground) => {
  const { world, random, setting } = ground;
  if (setting.mode !== 'On') return false;
  switchMode(ground, random.pick(['Off', 'Observe'] as const) ?? 'Off');
  world.timeline.after(random.int(5_000, 60_000), () => switchMode(ground, 'On'));
  return true;
};

/** Every kind of fault beside crashes at failpoints; each has to hit often enough over all seeds. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  'controller crashes': crash,
  'controller dead for long': deadForLong,
  'leader frozen': freeze,
  'clock jumps': clockJump,
  'webhook killed': killWebhook,
  'watches broken': breakWatches,
  'watches expired (410)': expireWatches,
  'watches stalled': stallWatches,
  'API conflicts (409)': troubled({ kind: 'refused', status: 409, reason: 'Conflict' }, [1_000, 8_000], 0.5),
  'API throttles (429)': troubled(
    { kind: 'refused', status: 429, reason: 'TooManyRequests', retryAfterMs: 1_000 },
    [1_000, 15_000],
    0.7,
  ),
  'API fails (500)': troubled({ kind: 'refused', status: 500, reason: 'InternalError' }, [1_000, 15_000], 0.7),
  'API writes, answer lost': troubled({ kind: 'lost' }, [500, 6_000], 0.5),
  'API unreachable': troubled({ kind: 'unreached' }, [500, 8_000], 1),
  'registry denies': registry('denied'),
  'registry has no image': registry('gone'),
  'registry down': registry('down'),
  'tag moves': ({ world, random }) => moveTag(world, random),
  'node cut off': cutOff,
  'node lost': lose,
  'node cordoned': cordon,
  'kubelet restarts': restartKubelet,
  'images collected': collectImages,
  'gang evicted': evict,
  'queue writes stale checks': staleQueue,
  'set deleted by hand': deleteSet,
  'set edited by hand': editSet,
  'collector away': collectorAway,
  'puller deleted by hand': deletePuller,
  'ImagePrewarm deleted by hand': deletePrewarm,
  'stamp edited by hand': wipeStatus,
  'kinds not served': absentKinds,
  'mode switched': otherMode,
};
