import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import { Lookups } from '../../../src/controller/images/lookups.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { PrewarmDecision } from '../../../src/controller/prewarm/decide.js';
import { lookupsNeeded } from '../../../src/controller/prewarm/record.js';
import type { GangView, PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import { RecordedVariants } from '../../../src/controller/images/recorded-variants.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { LookupOptions } from '../../../src/images/registry-port.js';
import type { Reference } from '../../../src/images/reference.js';
import type { Capability } from '../../../src/placement/capability.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';
import { FakeClock } from '../kube/fake-clock.js';
import { estargzImage, nydusImage, plain } from '../images/bodies.js';
import { bodyDigest, indexBody, MemoryRegistry } from '../images/support.js';
import { named, NYDUS, ready, viewOf } from '../placement/classes.js';
import { makePolicy } from '../rewrite/builders.js';
import { condition, context, failure, gang, GANG_REF, noSecrets, prewarm, progress, snapshot, SOURCE, T0 } from './fixtures.js';

const KEY = 'team/p';
const REPOSITORY = 'reg.example.com/train';
const resolved = (body: object): string => `${REPOSITORY}@${bodyDigest(body)}`;
const source = plain('source');
const record = { annotations: { 'harbinger.dev/source-digest': bodyDigest(source) } };
const nydus = nydusImage('nydus', undefined, record);
const estargz = estargzImage('estargz', 2, record);
const NYDUS_RULE = { format: 'nydus', discover: { tagSuffix: '-nydus' } };
const ESTARGZ_RULE = { format: 'estargz', discover: { tagSuffix: '-esgz' } };

/** Reads as a tenant may, unless the image is private; then nobody may without a credential. */
class Registry extends MemoryRegistry {
  isPrivate = false;
  away = false;
  override manifest(reference: Reference, options: LookupOptions = {}) {
    const { registry: host } = reference;
    if (this.away) return Promise.reject(new RegistryError('away', { outcome: 'registry-error', host }));
    if (this.isPrivate && options.anonymous === true)
      return Promise.reject(new RegistryError('who are you?', { outcome: 'auth-denied', host, status: 401 }));
    return super.manifest(reference, options);
  }
}

/** A cluster, its registry and the controller's memory, with one gang on the flavor whose nodes run Nydus. */
class World {
  readonly clock = new FakeClock(T0);
  readonly registry = new Registry().set(SOURCE, source).set(`${SOURCE}-nydus`, nydus).set(`${SOURCE}-esgz`, estargz);
  policy: Policy = this.policyOf([NYDUS_RULE]);
  nodes: NodeFacts[] = [named('a', { pool: 'a', ...ready }), named('b', { pool: 'b' })];
  capabilities: Capability[] = [NYDUS];
  quarantined: NodeClasses['quarantined'] = [];
  /** Whether the controller knows its nodes. */
  known = true;
  object: ImagePrewarm = prewarm({}, { gangRef: GANG_REF, targets: [this.target({ pool: 'a', ...ready })] });
  gang: GangView = gang();
  failures: string[] = [];
  readonly #facts = {
    registry: () => this.registry,
    policies: () => [this.policy],
    namespaceLabels: () => ({}),
    nodeClasses: () =>
      this.known
        ? { ...viewOf(this.nodes, this.capabilities), publishedAt: this.clock.now(), quarantined: this.quarantined }
        : undefined,
    runtimeClass: () => undefined,
    clock: this.clock,
  };
  readonly lookups = new Lookups(this.#facts, noSecrets);
  variants = new RecordedVariants(this.#facts, noSecrets);

  policyOf(variants: object[], spec: object = {}): Policy {
    return makePolicy('p', { mode: 'Enforce', whenPrewarmed: 'Variant', variants, ...spec });
  }
  target(matchLabels: Record<string, string>): PrewarmTarget {
    return { name: 'main', images: [{ reference: SOURCE }], nodes: { selector: { matchLabels }, count: 3 } };
  }
  restart(): void {
    this.variants = new RecordedVariants(this.#facts, noSecrets);
  }
  quarantine(body: object, namespace = 'team'): void {
    const until = this.clock.now() + 1_800_000;
    this.quarantined = [
      { namespace, variant: bodyDigest(body), reason: 'ImageNotFound', message: 'nodes cannot pull it', until },
    ];
  }
  /** The gang was let go and runs. */
  release(): void {
    this.gang = gang({ checkReady: true }, { reservedAt: T0, admitted: true });
  }
  /** It comes back on other nodes: its check is Pending again, and it stays a gang that was let go. */
  comeBack(matchLabels: Record<string, string>): void {
    this.gang = gang({}, { reservedAt: T0 });
    const status = this.object.status ?? {};
    const released = { type: 'Released', status: 'True' as const, reason: 'WarmVerified', message: 'm', lastTransitionTime: '' };
    const conditions = [...(status.conditions ?? []), released];
    this.object = prewarm({ ...status, conditions }, { gangRef: GANG_REF, targets: [this.target(matchLabels)] });
  }
  #snapshot(): PrewarmSnapshot {
    const failures = this.failures.map((image) => ({ ...failure('ImageNotFound'), image }));
    return snapshot({
      prewarm: this.object,
      gang: this.gang,
      progress: progress(failures.length === 0 ? {} : { warm: 2, failed: 1, failures }),
      lookups: this.lookups.of(KEY),
      unusable: this.variants.problems(KEY, this.object),
    });
  }
  /** One look at the gang, as its reconciler does it. */
  async look(): Promise<PrewarmDecision> {
    await this.variants.check(KEY, this.object, { maxAgeMs: 60_000, failed: new Set(this.failures) });
    const needs = lookupsNeeded(this.#snapshot(), this.clock.now(), 60_000);
    await this.lookups.look(KEY, this.object, needs, { platforms: ['linux/amd64'] });
    const decision = decidePrewarm(this.#snapshot(), context({ now: this.clock.now() }));
    this.object = { ...this.object, status: decision.status };
    return decision;
  }
  image() {
    return this.object.status?.targets?.[0]?.images[0];
  }
}

const PLAIN = { resolved: resolved(source), digest: bodyDigest(source), outcome: 'pinned' };
const NYDUS_IMAGE = { resolved: resolved(nydus), digest: bodyDigest(source), outcome: 'accelerated', format: 'nydus' };
const ESTARGZ_IMAGE = { resolved: resolved(estargz), digest: bodyDigest(source), outcome: 'accelerated', format: 'estargz' };

async function recordedWorld(change: (world: World) => void = () => undefined): Promise<World> {
  const world = new World();
  change(world);
  await world.look();
  return world;
}

describe('a gang that was let go with a variant', () => {
  const evicted = async (matchLabels: Record<string, string>): Promise<[World, PrewarmDecision]> => {
    const world = await recordedWorld();
    world.release();
    await world.look();
    world.comeBack(matchLabels);
    return [world, await world.look()];
  };
  test('and comes back on nodes that cannot run it is given the plain image of the same digest', async () => {
    const [world, { status, record: update }] = await evicted({ pool: 'b' });
    expect(world.image()).toMatchObject({ ...PLAIN, message: expect.stringContaining('not known to run nydus') });
    expect(world.image()).not.toHaveProperty('format');
    // The check may not become Ready on the warmth of the other image.
    expect(update.moved).toEqual([SOURCE]);
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'ImageMoved' });
  });
  test('the control: back on nodes that can run it, it keeps it', async () => {
    const [world] = await evicted({ pool: 'a', ...ready });
    expect(world.image()).toMatchObject({ ...NYDUS_IMAGE, portable: false });
  });
  test('is not given the variant again, whatever its nodes do next', async () => {
    const [world] = await evicted({ pool: 'b' });
    world.comeBack({ pool: 'a', ...ready });
    await world.look();
    expect(world.image()).toMatchObject(PLAIN);
  });
  test('keeps to its digest though the tag has moved and another variant is there', async () => {
    const world = await recordedWorld((w) => (w.policy = w.policyOf([NYDUS_RULE, ESTARGZ_RULE])));
    world.release();
    world.registry.set(SOURCE, plain('new'));
    world.quarantine(nydus);
    await world.look();
    expect(world.image()).toMatchObject(PLAIN);
  });

  const rows: [string, (world: World) => void, object][] = [
    ['nodes fail to pull it for this namespace', (w) => w.quarantine(nydus), PLAIN],
    ['the control: nodes fail to pull it for another one', (w) => w.quarantine(nydus, 'other'), NYDUS_IMAGE],
    ['its nodes lose their label', (w) => (w.nodes = [named('a', { pool: 'a' })]), PLAIN],
    ['the nodes are not known for a moment', (w) => (w.known = false), NYDUS_IMAGE],
    ['its policy is gone', (w) => (w.policy = makePolicy('p', { match: { images: ['other.example.com/*'] } })), NYDUS_IMAGE],
    [
      'it is gone and pullers fail',
      (w) => (w.registry.lose(REPOSITORY, nydus), w.failures.push(resolved(nydus)), void w.clock.jump(20_000)),
      PLAIN,
    ],
    ['pullers fail, but it is there', (w) => (w.failures.push(resolved(nydus)), void w.clock.jump(20_000)), NYDUS_IMAGE],
    ['the registry is away', (w) => ((w.registry.away = true), w.restart()), NYDUS_IMAGE],
  ];
  test.each(rows)('%s', async (_title, change, expected) => {
    const world = await recordedWorld();
    world.release();
    await world.look();
    change(world);
    await world.look();
    expect(world.image()).toMatchObject(expected);
  });
});

describe('a gang that waits with a variant on record', () => {
  const lost = (w: World): void => void (w.nodes = [named('a', { pool: 'a' })]);
  const rows: [string, (world: World) => void, object][] = [
    ['the label of its nodes is gone: the next variant of the policy', lost, ESTARGZ_IMAGE],
    ['nodes fail to pull it: the next variant', (w) => w.quarantine(nydus), ESTARGZ_IMAGE],
    [
      'it is deleted: the next variant, once it was asked for again',
      (w) => (w.registry.lose(REPOSITORY, nydus), void w.clock.jump(60_000)),
      ESTARGZ_IMAGE,
    ],
    ['the label is gone and so is the registry: the plain image', (w) => (lost(w), (w.registry.away = true)), PLAIN],
    ['the control: nothing happens', () => undefined, NYDUS_IMAGE],
  ];
  test.each(rows)('%s', async (_title, change, expected) => {
    const world = await recordedWorld((w) => (w.policy = w.policyOf([NYDUS_RULE, ESTARGZ_RULE])));
    expect(world.image()).toMatchObject(NYDUS_IMAGE);
    change(world);
    await world.look();
    expect(world.image()).toMatchObject(expected);
  });

  test('keeps it while a check of it is Ready, and says that it must go back', async () => {
    const world = await recordedWorld();
    world.gang = gang({ checkReady: true });
    lost(world);
    const { record: update, status } = await world.look();
    expect(update).toMatchObject({ held: [SOURCE], moved: [] });
    expect(world.image()).toMatchObject(NYDUS_IMAGE);
    expect(condition(status, 'Ready')?.message).toMatch(/variant of .* is not used any more/);
    world.gang = gang();
    await world.look();
    expect(world.image()).toMatchObject(PLAIN);
  });
  test('is not changed for nodes that do not matter to a portable one', async () => {
    const world = await recordedWorld((w) => (w.policy = w.policyOf([ESTARGZ_RULE])));
    lost(world);
    await world.look();
    expect(world.image()).toMatchObject({ ...ESTARGZ_IMAGE, portable: true });
  });
  test('asks the registry no more often than it has to', async () => {
    const world = await recordedWorld();
    await world.look();
    const before = world.registry.asked.length;
    world.clock.jump(59_000);
    await world.variants.check(KEY, world.object, { maxAgeMs: 60_000, failed: new Set() });
    expect(world.registry.asked).toHaveLength(before);
    world.clock.jump(1_000);
    await world.variants.check(KEY, world.object, { maxAgeMs: 60_000, failed: new Set() });
    expect(world.registry.asked.length).toBeGreaterThan(before);
  });
});

describe('a portable variant for amd64 alone, of a source for two platforms', () => {
  const [amd, arm] = [plain('amd'), plain('arm')];
  const both = indexBody([
    { platform: 'linux/amd64', body: amd },
    { platform: 'linux/arm64', body: arm },
  ]);
  const fast = estargzImage('fast', 2, { annotations: { 'harbinger.dev/source-digest': bodyDigest(amd) } });
  const on = (arch: string): Record<string, string> => ({ 'kubernetes.io/arch': arch });
  const rows: [string, string, string][] = [
    ['falls back where the gang returns on arm64', 'arm64', resolved(both)],
    ['the control: stays on amd64', 'amd64', resolved(fast)],
  ];
  test.each(rows)('%s', async (_title, arch, expected) => {
    const world = await recordedWorld((w) => {
      w.policy = w.policyOf([ESTARGZ_RULE]);
      w.registry.set(SOURCE, both).add(REPOSITORY, amd, arm).set(`${SOURCE}-esgz`, fast);
      w.registry.setConfig((fast as { config: { digest: string } }).config.digest, 'linux/amd64');
      w.object = prewarm({}, { gangRef: GANG_REF, targets: [w.target(on('amd64'))] });
    });
    expect(world.image()).toMatchObject({ resolved: resolved(fast), portable: true });
    world.release();
    world.comeBack(on(arch));
    await world.look();
    expect(world.image()).toMatchObject({ resolved: expected, digest: bodyDigest(both) });
  });
});

describe('a private variant that only snapshotters with credentials can fetch', () => {
  const rows: [string, Capability[], object][] = [
    ['falls back where nodes have none any more', [NYDUS], PLAIN],
    ['the control: they have them still', [{ ...NYDUS, privateImages: true }], NYDUS_IMAGE],
  ];
  test.each(rows)('%s', async (_title, capabilities, expected) => {
    const world = await recordedWorld((w) => {
      w.registry.isPrivate = true;
      w.capabilities = [{ ...NYDUS, privateImages: true }];
    });
    expect(world.image()).toMatchObject(NYDUS_IMAGE);
    world.release();
    world.capabilities = capabilities;
    await world.look();
    expect(world.image()).toMatchObject(expected);
  });
});

test('nothing is remembered of a variant that the spec does not name any more', async () => {
  const world = await recordedWorld();
  const original = world.object;
  world.registry.lose(REPOSITORY, nydus);
  const check = () => world.variants.check(KEY, world.object, { maxAgeMs: 60_000, failed: new Set() });
  await world.clock.advance(60_000);
  await check();
  expect(world.variants.problems(KEY, original).size).toBe(1);
  const target = { ...world.target({ pool: 'a', ...ready }), images: [{ reference: 'reg.example.com/other:v1' }] };
  world.object = prewarm({}, { gangRef: GANG_REF, targets: [target] });
  await check();
  expect(world.variants.problems(KEY, original).size).toBe(0);
});
