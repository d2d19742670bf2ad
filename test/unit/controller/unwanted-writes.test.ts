import { expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { Caches } from '../../../src/controller/caches.js';
import { PullerWorld } from '../../../src/controller/pullers/world.js';
import { WrittenSets } from '../../../src/controller/pullers/written-sets.js';
import { KubeError } from '../../../src/kube/errors.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import type { Puller } from '../../../src/preheat/puller.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { image, puller, T0 } from '../preheat/fixtures.js';
import { prewarm, SOURCE } from './fixtures.js';

const OWN = 'harbinger-system';
const theirs = puller('b', { tenant: { namespace: 'team', secrets: ['registry'] } });
const noAnswer = new KubeError('unreachable', { status: 0, reason: 'Unreachable' });

/** An ImagePrewarm that has the image of a tenant on its record. */
const wanting: ImagePrewarm = prewarm(
  { targets: [{ name: 'main', images: [{ source: SOURCE, resolved: image('b'), outcome: 'pinned', pulledWith: 'Workload' }] }] },
  {
    targets: [
      { name: 'main', images: [{ reference: SOURCE }], nodes: { selector: {} }, imagePullSecrets: [{ name: 'registry' }] },
    ],
  },
);

class Ground {
  now = 0;
  prewarms: ImagePrewarm[] = [wanting];
  readonly written = new WrittenSets(() => this.now);
  readonly #cached: PullerSet[] = [];
  readonly #world = new PullerWorld({
    caches: {
      nodes: { list: () => [node('n1')], get: () => node('n1') },
      prewarms: { list: () => this.prewarms },
      pods: { list: () => [], onChange: () => undefined },
      rejections: { byIndex: () => [] },
    } as unknown as Caches,
    config: () => ({ budgets: { assumedPullMiBPerSecond: 50, minDeadlineSeconds: 600 } }) as never,
    now: () => T0 + this.now,
    monotonic: () => this.now,
    sets: () => this.written.seen(this.#cached),
    namespace: OWN,
    readRejection: () => Promise.resolve(undefined),
  });

  async send(of: Puller): Promise<void> {
    const object = pullerManifest(of, ['n1'], { namespace: OWN, program: 'p' });
    await this.written.write(object, () => Promise.reject(noAnswer)).catch(() => undefined);
  }

  /** Whether a pull of the image counts. */
  async counts(of: Puller): Promise<boolean> {
    return (await this.#world.look(new Map())).pulls.get(of.hash)?.get('n1')?.inFlight === true;
  }
}

test.each([
  ['in our own namespace', puller('a'), true],
  ['in that of a tenant', theirs, true],
  ['in that of a tenant, gone from the record before the next look', theirs, false],
])(
  'a write without an answer counts though nobody wants its set any more, as long as it may be done: %s',
  async (_, of, seen) => {
    const ground = new Ground();
    await ground.send(of);
    if (seen) expect(await ground.counts(of)).toBe(true);
    ground.prewarms = [];
    for (const now of [0, 30_000, 89_999]) {
      ground.now = now;
      expect(await ground.counts(of)).toBe(true);
    }
    ground.now = 90_000;
    expect(await ground.counts(of)).toBe(false);
  },
);
