import { at } from '../../../src/api/json.js';
import type { Raw } from '../invariants/history.js';
import { holds, isActive, reservedAt } from '../invariants/read.js';
import type { World } from './models/world.js';
import { CHECK, CLUSTER_QUEUE, EXTRA, LOCAL_QUEUE, NS, RESOURCE, nameOf, ownedBy, remove } from './models/world.js';
import type { Random } from './random.js';

/** Something that people want at a time. The wishes of a seed are the same with and without faults. */
export interface Wish {
  at: number;
  name: string;
  /** False: there was nothing that it could be done to. */
  grant: (world: World) => boolean;
}

export const IMAGES = ['reg-a.test/ml/train', 'reg-a.test/ml/eval', 'reg-b.test/llm/serve'] as const;
const HOLDS = [undefined, '0s', '15s', '90s', '5m'] as const;
const PREWARM = 'harbinger.dev/prewarm';
const HOLD = 'harbinger.dev/prewarm-hold';
const GATE = { [EXTRA.gates]: 'harbinger.dev/image-prewarm' } as const;

interface Gang {
  name: string;
  image: string;
  pods: number;
  priority: number;
  annotations: Record<string, string>;
}

/** Everything that people want in the run of one seed, in order. */
export function wishesOf(random: Random, window: readonly [number, number]): Wish[] {
  const gangs = Array.from({ length: random.int(5, 7) }, (_none, i) => gangOf(random, i));
  const when = (): number => random.int(...window);
  const wishes: Wish[] = gangs.map((gang, i) => ({
    at: i < 3 ? window[0] + random.int(0, 20_000) : when(),
    name: `create ${gang.name}`,
    grant: (world) => create(world, gang),
  }));
  const some = (): string => random.pick(gangs)?.name ?? '';
  const more: [string, (name: string) => Wish['grant']][] = [
    ['opt out', (name) => (world) => annotate(world, name, { [PREWARM]: 'false' })],
    ['opt in', (name) => (world) => annotate(world, name, { [PREWARM]: 'true', [HOLD]: '2m' })],
    ['change image', (name) => (world) => changeImage(world, name, random.pick(IMAGES) ?? IMAGES[0])],
    ['delete job', (name) => (world) => deleteJob(world, name)],
    ['deactivate', (name) => (world) => activate(world, name, false)],
    ['move tag', () => (world) => moveTag(world, random)],
    ['change hold', () => (world) => changeConfig(world, random)],
    ['warm by hand', () => (world) => byHand(world, random)],
    ['warm once', () => (world) => once(world, random)],
    ['change policy', () => (world) => changePolicy(world, random)],
    ['replace check', () => (world) => replaceCheck(world)],
  ];
  for (const [name, grant] of more) {
    const target = some();
    const at = when();
    wishes.push({ at, name: `${name} ${target}`, grant: grant(target) });
    if (name === 'deactivate')
      wishes.push({ at: at + 60_000, name: `activate ${target}`, grant: (world) => activate(world, target, true) });
  }
  return wishes.sort((a, b) => a.at - b.at);
}

function gangOf(random: Random, i: number): Gang {
  const hold = random.pick(HOLDS);
  const optedIn = i === 0 || random.chance(0.8);
  return {
    name: `gang-${i}`,
    image: `${random.pick(IMAGES) ?? IMAGES[0]}:v1`,
    pods: random.int(1, 4),
    priority: random.chance(0.25) ? 10 : 0,
    annotations: {
      ...(optedIn ? { [PREWARM]: 'true', ...(hold === undefined ? {} : { [HOLD]: hold }) } : {}),
      ...(random.chance(0.4) ? GATE : {}),
    },
  };
}

function create(world: World, { name, image, pods, priority, annotations }: Gang): boolean {
  const template = { metadata: {}, spec: { restartPolicy: 'Never', containers: [{ name: 'main', image }] } };
  world.store.create(RESOURCE.jobs, {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: NS, annotations, labels: { [EXTRA.queue]: LOCAL_QUEUE, [EXTRA.priority]: String(priority) } },
    spec: { parallelism: pods, suspend: true, template },
  });
  return true;
}

export const jobOf = (world: World, name: string): Raw | undefined => world.store.find(RESOURCE.jobs, { namespace: NS, name });
export const workloadOf = (world: World, job: Raw): Raw | undefined =>
  world.store.list(RESOURCE.workloads).find((w) => ownedBy(w, job.metadata.uid));

function annotate(world: World, name: string, annotations: Record<string, string>): boolean {
  const job = jobOf(world, name);
  if (job === undefined) return false;
  world.store.patch(RESOURCE.jobs, nameOf(job), { type: 'merge', body: { metadata: { annotations } } });
  return true;
}

/** Only while no quota is reserved and no Pod has run: the Workload is immutable then. */
function changeImage(world: World, name: string, repository: string): boolean {
  const job = jobOf(world, name);
  const workload = job === undefined ? undefined : workloadOf(world, job);
  if (job === undefined || workload === undefined || reservedAt(workload) !== undefined || holds(workload, 'Evicted'))
    return false;
  const containers = [{ name: 'main', image: `${repository}:v1` }];
  world.store.patch(RESOURCE.jobs, nameOf(job), { type: 'merge', body: { spec: { template: { spec: { containers } } } } });
  const podSets = (at(workload, 'spec')['podSets'] as { template: { spec: object } }[]).map((p) => ({
    ...p,
    template: { ...p.template, spec: { ...p.template.spec, containers } },
  }));
  world.store.patch(RESOURCE.workloads, nameOf(workload), { type: 'merge', body: { spec: { podSets } } });
  return true;
}

function deleteJob(world: World, name: string): boolean {
  const job = jobOf(world, name);
  if (job !== undefined) remove(world, RESOURCE.jobs, job);
  return job !== undefined;
}

function activate(world: World, name: string, active: boolean): boolean {
  const job = jobOf(world, name);
  const workload = job === undefined ? undefined : workloadOf(world, job);
  if (workload === undefined || isActive(workload) === active || holds(workload, 'Finished')) return false;
  world.store.patch(RESOURCE.workloads, nameOf(workload), { type: 'merge', body: { spec: { active } } });
  return true;
}

export function moveTag(world: World, random: Random): boolean {
  world.registry.push(random.pick(IMAGES) ?? IMAGES[0], 'v1', bytesOf(random));
  return true;
}

/** Compressed bytes that a machine pulls in some seconds to a minute. */
export const bytesOf = (random: Random): number => random.int(200, 2_500) * 1_000_000;

function changeConfig(world: World, random: Random): boolean {
  const spec = { defaultHoldSeconds: random.pick([0, 20, 120]), minWarmPercent: random.pick([50, 100]) };
  const body = { spec: { ...spec, onTimeout: random.pick(['Start', 'Retry']) } };
  world.store.patch(RESOURCE.prewarmCheckConfigs, { name: 'default' }, { type: 'merge', body });
  return true;
}

function byHand(world: World, random: Random): boolean {
  return prewarm(world, 'base', { retain: 'Always', nodes: { selector: {}, count: random.int(1, 3) } });
}

/** One that is to go by itself after it was warm. */
function once(world: World, random: Random): boolean {
  return prewarm(world, 'once', { ttlSecondsAfterFinished: random.int(5, 60), nodes: { selector: {}, count: 1 } });
}

function prewarm(
  world: World,
  name: string,
  { nodes, ...spec }: { nodes: object; retain?: string; ttlSecondsAfterFinished?: number },
): boolean {
  if (world.store.find(RESOURCE.imagePrewarms, { namespace: NS, name }) !== undefined) return false;
  const targets = [{ name: 'main', images: [{ reference: `${IMAGES[2]}:v1` }], nodes }];
  const object = { apiVersion: '', kind: 'ImagePrewarm', metadata: { name, namespace: NS }, spec: { ...spec, targets } };
  world.store.create(RESOURCE.imagePrewarms, object);
  return true;
}

function changePolicy(world: World, random: Random): boolean {
  if (!world.store.isServed(RESOURCE.accelerationPolicies)) return false;
  const name = 'lazy';
  if (world.store.find(RESOURCE.accelerationPolicies, { name }) === undefined) {
    const spec = { match: { images: ['reg-z.test/**'] }, variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }] };
    world.store.create(RESOURCE.accelerationPolicies, {
      apiVersion: '',
      kind: 'AccelerationPolicy',
      metadata: { name },
      spec,
    });
  } else
    world.store.patch(
      RESOURCE.accelerationPolicies,
      { name },
      { type: 'merge', body: { spec: { priority: random.int(1, 1000) } } },
    );
  return true;
}

/** Takes the check off the queue, deletes it, and brings both back a minute later. */
function replaceCheck(world: World): boolean {
  const check = world.store.find(RESOURCE.admissionChecks, { name: CHECK });
  if (check === undefined) return false;
  strategy(world, []);
  remove(world, RESOURCE.admissionChecks, check);
  world.timeline.after(60_000, () => {
    createCheck(world);
    strategy(world, [{ name: CHECK }]);
  });
  return true;
}

function strategy(world: World, admissionChecks: object[]): void {
  const body = { spec: { admissionChecksStrategy: { admissionChecks } } };
  world.store.patch(RESOURCE.clusterQueues, { name: CLUSTER_QUEUE }, { type: 'merge', body });
}

export function createCheck(world: World): void {
  world.store.create(RESOURCE.admissionChecks, {
    apiVersion: '',
    kind: 'AdmissionCheck',
    metadata: { name: CHECK },
    spec: {
      controllerName: 'harbinger.dev/image-prewarm',
      parameters: { apiGroup: 'harbinger.dev', kind: 'PrewarmCheckConfig', name: 'default' },
    },
  });
}
