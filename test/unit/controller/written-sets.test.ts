import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { WrittenSets } from '../../../src/controller/pullers/written-sets.js';
import { KubeError } from '../../../src/kube/errors.js';
import { Engine } from '../../../src/preheat/backends/daemonset/engine.js';
import type { DaemonSet } from '../../../src/preheat/backends/daemonset/manifest.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import type { Plan } from '../../../src/preheat/planner.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { puller } from '../preheat/fixtures.js';

const OPTIONS = { namespace: 'harbinger-system', program: 'p' };
const wanted = (...nodes: string[]): Plan['grants'] => new Map([[puller().hash, { puller: puller(), nodes: new Set(nodes) }]]);
const manifest = (...nodes: string[]): DaemonSet => pullerManifest(puller(), nodes, OPTIONS);
const answer = (object: KubeObject, resourceVersion = '2'): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, uid: 'u', resourceVersion },
});
const inCache = (...nodes: string[]): PullerSet => projectPullerSet(answer(manifest(...nodes), '1'));
const noAnswer = new KubeError('unreachable', { status: 0, reason: 'Unreachable' });
const failing = new KubeError('failed calling webhook', { status: 500, reason: 'InternalError' });

class Ground {
  now = 0;
  cached: PullerSet[] = [];
  trouble: KubeError | undefined;
  readonly tries: number[] = [];
  readonly written = new WrittenSets(() => this.now);
  readonly #engine = new Engine({
    create: (o) => this.written.write(o, () => this.#send(o)),
    update: (o) => this.written.write(o, () => this.#send(o)),
    delete: () => Promise.resolve(),
    stored: (o) => projectPullerSet(o as KubeObject),
    refusal: () => undefined,
    fallsBack: () => true,
    dropped: () => undefined,
    altered: () => undefined,
    failed: () => undefined,
  });

  #send(object: KubeObject): Promise<KubeObject> {
    this.tries.push(this.now);
    return this.trouble === undefined ? Promise.resolve(answer(object)) : Promise.reject(this.trouble);
  }

  /** As the planner does it, once a second. */
  async until(end: number, grants: Plan['grants']): Promise<void> {
    for (; this.now < end; this.now += 1_000)
      await this.#engine.run(engineSteps(grants, this.written.known(this.cached), OPTIONS), this.now);
  }

  seen(): { nodes: string[]; doubtful: readonly string[] } | undefined {
    const [set] = this.written.seen(this.cached);
    return set === undefined ? undefined : { nodes: set.nodes, doubtful: set.doubtful ?? [] };
  }
}

describe('a write of a DaemonSet that got no answer', () => {
  test.each<[string, PullerSet[], KubeError]>([
    ['it was made, unreachable', [], noAnswer],
    ['it was made, a webhook is away', [], failing],
    ['it was changed, unreachable', [inCache('n1')], noAnswer],
    ['it was changed, a webhook is away', [inCache('n1')], failing],
  ])('is sent again after the pause of the engine, and not when it is in doubt no more: %s', async (_, cached, trouble) => {
    const ground = new Ground();
    Object.assign(ground, { cached, trouble });
    await ground.until(2_000, wanted('n1', 'n2'));
    ground.trouble = undefined;
    await ground.until(60_000, wanted('n1', 'n2'));
    expect(ground.tries[0]).toBe(0);
    expect(ground.tries.at(-1)).toBeLessThanOrEqual(4_000);
    // What was stored is not sent again, though the cache does not show it.
    expect(ground.tries.length).toBeLessThanOrEqual(3);
  });

  test('counts with the nodes of all such writes until the cache shows them, or they can be done no more', async () => {
    const ground = new Ground();
    Object.assign(ground, { cached: [inCache('n1')], trouble: noAnswer });
    await ground.until(1_000, wanted('n1', 'n2'));
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2'], doubtful: ['n2'] });
    await ground.until(5_000, wanted('n1', 'n3'));
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2', 'n3'], doubtful: ['n2', 'n3'] });
    expect(ground.written.inDoubt(manifest().metadata)).toBe(true);
    ground.cached = [inCache('n1', 'n3')];
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n3', 'n2'], doubtful: ['n2'] });
    // Once seen it is done, whatever comes after it.
    ground.cached = [inCache('n1')];
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2'], doubtful: ['n2'] });
    ground.now = 89_999;
    expect(ground.seen()?.doubtful).toEqual(['n2']);
    ground.now = 90_000;
    expect(ground.seen()).toEqual({ nodes: ['n1'], doubtful: [] });
    expect(ground.written.inDoubt(manifest().metadata)).toBe(false);
  });

  test('counts beside one that came after it and was stored: it may have been done before', async () => {
    const ground = new Ground();
    ground.trouble = noAnswer;
    await ground.until(1_000, wanted('n1', 'n2'));
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2'], doubtful: ['n1', 'n2'] });
    ground.trouble = undefined;
    await ground.until(5_000, wanted('n1'));
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2'], doubtful: ['n2'] });
  });

  test('counts on when its set is gone, which proves no Pods of it: it may have been done before, or make the set anew', async () => {
    const ground = new Ground();
    ground.trouble = noAnswer;
    ground.cached = [inCache('n1')];
    await ground.until(1_000, wanted('n1', 'n2'));
    ground.cached = [];
    ground.written.gone(`${OPTIONS.namespace}/${manifest().metadata.name}`);
    expect(ground.seen()).toEqual({ nodes: ['n1', 'n2'], doubtful: ['n1', 'n2'] });
    expect(ground.written.seen([])).toMatchObject([{ uid: '' }]);
    ground.now = 90_000;
    expect(ground.seen()).toBeUndefined();
  });

  test('counts not at all where it was refused', async () => {
    const ground = new Ground();
    ground.trouble = new KubeError('conflict', { status: 409, reason: 'Conflict' });
    await ground.until(5_000, wanted('n1'));
    expect([ground.tries.length > 1, ground.seen()]).toEqual([true, undefined]);
  });
});
