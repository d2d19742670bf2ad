import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { Caches, RejectionView } from '../../../src/controller/caches.js';
import { PullerWorld } from '../../../src/controller/pullers/world.js';
import { candidates } from '../../../src/placement/candidates.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import type { PlannedPrewarm, World } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { image, pod, puller, T0, waiting } from './fixtures.js';

const OWN = 'harbinger-system';
const NODES = Array.from({ length: 8 }, (_, i) => `n${i}`);
const LIMITS = { maxPullingNodes: 4, maxPullingNodesPerRegistry: 4 };
const RATES = { assumedPullMiBPerSecond: 50, minDeadlineSeconds: 600 };
const HOUR = 3_600_000;
const theirs = puller('b', { tenant: { namespace: 'team', secrets: ['registry'] } });

/** A set as we make it, to the letter. */
function setOf(of: Puller, nodes: string[], program = 'reg.example.com/puller@sha256:1'): PullerSet {
  const { metadata, ...rest } = pullerManifest(of, nodes, { namespace: OWN, program });
  return projectPullerSet({ ...rest, metadata: { ...metadata, uid: 'theirs' } });
}

/** An ImagePrewarm that has an image on its record. */
const record = (name: string, letter: string, change: { pulledWith?: 'Workload'; sizeBytes?: number } = {}): ImagePrewarm => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'ImagePrewarm',
  metadata: { name, namespace: 'team', uid: name },
  spec: {
    targets: [
      { name: 'main', images: [{ reference: image(letter) }], nodes: { selector: {} }, imagePullSecrets: [{ name: 'registry' }] },
    ],
    pin: 'AtRelease',
    retain: 'UntilGangStarts',
    spareNodes: 0,
    suspend: false,
  },
  status: {
    targets: [{ name: 'main', images: [{ source: image(letter), resolved: image(letter), outcome: 'pinned', ...change }] }],
  },
});

class Ground {
  prewarms: ImagePrewarm[] = [];
  sets: PullerSet[] = [];
  pods: PullerPod[] = [];
  rejections: RejectionView[] = [];
  refused = new Map<string, string>();
  at = T0;
  asked = 0;
  readonly #world = new PullerWorld({
    caches: {
      nodes: { list: () => NODES.map((n) => node(n)), get: (n: string) => node(n) },
      prewarms: { list: () => this.prewarms },
      pods: { list: () => this.pods, onChange: () => undefined },
      rejections: { byIndex: () => this.rejections },
    } as unknown as Caches,
    config: () => ({ budgets: RATES }) as never,
    now: () => this.at,
    monotonic: () => this.at,
    sets: () => this.sets,
    namespace: OWN,
    readRejection: () => Promise.resolve(String(this.asked++)),
  });

  look(): Promise<World> {
    return this.#world.look(this.refused);
  }

  /** Nodes that somebody else is granted for a public image, at once and later. */
  async victims(): Promise<number[]> {
    const counts: number[] = [];
    for (const wait of [0, 20_000, 24 * HOUR]) {
      this.at += wait;
      const world = await this.look();
      counts.push(plan([victim], world, LIMITS).grants.get(puller('a').hash)?.nodes.size ?? 0);
    }
    return counts;
  }
}

const victim: PlannedPrewarm = {
  key: 'other/job',
  mayPull: true,
  keep: true,
  rank: { reserved: true, priority: 0, queuedAt: 0 },
  rampUp: 'Immediate',
  targets: [
    {
      name: 'main',
      pullers: [puller('a')],
      complete: true,
      candidates: candidates(
        { name: 'main', images: [{ reference: 'x' }], nodes: { selector: {} } },
        NODES.map((n) => node(n)),
      ),
    },
  ],
};
const ALL = [4, 4, 4];

describe("a DaemonSet to the letter in a tenant's namespace", () => {
  test.each(['reg.example.com/puller@sha256:1', 'of-the-tenant'])(
    'takes nothing of the limits and no node from others while no prewarm there has its image on record: program %s',
    async (program) => {
      const ground = new Ground();
      ground.sets = [setOf(theirs, NODES, program)];
      ground.pods = [
        pod({ namespace: 'team', ownerUid: 'theirs', hash: theirs.hash, image: theirs.image, container: waiting('') }),
      ];
      expect(await ground.victims()).toEqual(ALL);
      expect((await ground.look()).pulls.has(theirs.hash)).toBe(false);
      expect(ground.asked).toBe(0);
    },
  );
  test('the twin: with it on record the nodes that it names are in flight', async () => {
    const ground = new Ground();
    ground.sets = [setOf(theirs, NODES)];
    ground.prewarms = [record('job', 'b', { pulledWith: 'Workload' })];
    expect((await ground.victims())[0]).toBe(0);
  });
  test('a record of the image that Harbinger reads itself is not one of it', async () => {
    const ground = new Ground();
    ground.sets = [setOf(theirs, NODES)];
    ground.prewarms = [record('job', 'b')];
    expect(await ground.victims()).toEqual(ALL);
  });
  test('what it names counts no more where Harbinger may not write it; its Pods do', async () => {
    const ground = new Ground();
    ground.sets = [setOf(theirs, NODES)];
    ground.prewarms = [record('job', 'b', { pulledWith: 'Workload' })];
    ground.refused.set(theirs.hash, 'forbidden');
    expect(await ground.victims()).toEqual(ALL);
    ground.pods = [
      pod({
        namespace: 'team',
        ownerUid: 'theirs',
        node: 'n0',
        hash: theirs.hash,
        image: theirs.image,
        createdAt: ground.at,
        container: waiting(''),
      }),
    ];
    expect((await ground.look()).pulls.get(theirs.hash)?.get('n0')).toMatchObject({ state: 'pulling', inFlight: true });
  });
  test('once it is off the record its Pods count until it is gone, and nodes without one do not', async () => {
    const ground = new Ground();
    ground.sets = [setOf(theirs, ['n0', 'n1'])];
    ground.prewarms = [record('job', 'b', { pulledWith: 'Workload' })];
    await ground.look();
    ground.prewarms = [];
    const pulls = { namespace: 'team', ownerUid: 'theirs', hash: theirs.hash, image: theirs.image, container: waiting('') };
    ground.pods = [pod({ ...pulls, node: 'n0' })];
    await ground.look();
    // As long as n1 may have been given a Pod just then.
    ground.at += 15_000;
    const seen = (await ground.look()).pulls.get(theirs.hash);
    expect(seen?.get('n0')).toMatchObject({ state: 'pulling', inFlight: true });
    expect(seen?.get('n1')).toBeUndefined();
    // Gone and made by somebody: a stranger's.
    const sets = ground.sets.splice(0);
    await ground.look();
    ground.sets = sets;
    expect((await ground.look()).pulls.has(theirs.hash)).toBe(false);
  });
});

describe('the size of an image', () => {
  const GIB38 = 38 * 2 ** 30;
  test.each([
    ['first', ['known', 'unread']],
    ['last', ['unread', 'known']],
  ])(
    'is the most that any record says, so that one that could not be read shortens nobody’s deadline: known %s',
    async (_, order) => {
      const ground = new Ground();
      ground.sets = [setOf(puller('a'), ['n0'])];
      ground.prewarms = order.map((name) => record(name, 'a', name === 'known' ? { sizeBytes: GIB38 } : {}));
      expect((await ground.look()).pullers.get(puller('a').hash)?.bytes).toBe(GIB38);
      ground.pods = [pod({ node: 'n0', ownerUid: 'theirs', container: waiting('') })];
      await ground.look();
      ground.at += 11 * 60_000;
      expect((await ground.look()).pulls.get(puller('a').hash)?.get('n0')).toMatchObject({ state: 'pulling', inFlight: true });
    },
  );
});

test('of several complaints about a set the latest by time is told, in whatever order they were heard of', async () => {
  const ground = new Ground();
  ground.sets = [setOf(puller('a'), ['n0'])];
  ground.rejections = [
    { set: 'x', at: T0 + 9_000, note: 'FailedCreate: the newer words' },
    { set: 'x', at: T0 + 1_000, note: 'FailedCreate: the older words' },
  ];
  await ground.look();
  ground.at += 20_000;
  expect((await ground.look()).pulls.get(puller('a').hash)?.get('n0')?.message).toContain('the newer words');
});
