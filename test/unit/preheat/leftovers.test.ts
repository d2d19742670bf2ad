import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { Caches } from '../../../src/controller/caches.js';
import { PullerWorld } from '../../../src/controller/pullers/world.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerPod, projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import type { PullerPod, PullState } from '../../../src/preheat/evidence.js';
import type { Puller } from '../../../src/preheat/puller.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { POD_GRACE_MS } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { image, pod, puller, T0, waiting } from './fixtures.js';

const OWN = 'harbinger-system';
const DEADLINE_MS = 600_000;
const central = puller('a');
const theirs = puller('b', { tenant: { namespace: 'team', secrets: ['registry'] } });

const setOf = (of: Puller, nodes = ['n1']): PullerSet => {
  const { metadata, ...rest } = pullerManifest(of, nodes, { namespace: OWN, program: 'reg.example.com/puller@sha256:1' });
  return projectPullerSet({ ...rest, metadata: { ...metadata, uid: 'ds' } });
};
const podOf = (of: Puller, change: Partial<PullerPod> = {}): PullerPod =>
  pod({
    namespace: of.tenant?.namespace ?? OWN,
    hash: of.hash,
    image: of.image,
    phase: 'Pending',
    container: waiting('ContainerCreating'),
    ...change,
  });
/** That has the image of the tenant on its record. */
const record: ImagePrewarm = {
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'ImagePrewarm',
  metadata: { name: 'job', namespace: 'team', uid: 'job' },
  spec: {
    targets: [
      { name: 'main', images: [{ reference: image('b') }], nodes: { selector: {} }, imagePullSecrets: [{ name: 'registry' }] },
    ],
    pin: 'AtRelease',
    retain: 'UntilGangStarts',
    spareNodes: 0,
    suspend: false,
  },
  status: {
    targets: [
      {
        name: 'main',
        images: [{ source: image('b'), resolved: image('b'), outcome: 'pinned', pulledWith: 'Workload' }],
      },
    ],
  },
};

class Ground {
  at = T0;
  sets: PullerSet[] = [];
  pods: PullerPod[] = [];
  prewarms: ImagePrewarm[] = [];
  nodes = [node('n1'), node('n2')];
  readonly #handlers: ((key: string, now?: PullerPod, before?: PullerPod) => void)[] = [];
  readonly #world: PullerWorld;

  constructor() {
    this.#world = new PullerWorld({
      caches: {
        nodes: { list: () => this.nodes, get: (n: string) => this.nodes.find((f) => f.name === n) },
        prewarms: { list: () => this.prewarms },
        pods: { list: () => this.pods, onChange: (handler: (key: string) => void) => this.#handlers.push(handler) },
        rejections: { byIndex: () => [] },
      } as unknown as Caches,
      config: () => ({ budgets: { assumedPullMiBPerSecond: 50, minDeadlineSeconds: DEADLINE_MS / 1_000 } }) as never,
      now: () => this.at,
      monotonic: () => this.at,
      sets: () => this.sets,
      namespace: OWN,
      readRejection: () => Promise.resolve(undefined),
    });
  }

  show(next: PullerPod[]): void {
    const before = this.pods;
    this.pods = next;
    for (const one of next) for (const handler of this.#handlers) handler('', one, undefined);
    for (const one of before)
      if (!next.some((p) => p.uid === one.uid)) for (const handler of this.#handlers) handler('', undefined, one);
  }

  async state(of: Puller, after = 0, at = 'n1'): Promise<PullState | undefined> {
    this.at += after;
    return (await this.#world.look(new Map())).pulls.get(of.hash)?.get(at);
  }

  async flows(of: Puller, after = 0): Promise<boolean> {
    return (await this.state(of, after))?.inFlight ?? false;
  }
}

describe('a pull whose DaemonSet goes before its Pod', () => {
  test.each<[string, Puller, ImagePrewarm[], ImagePrewarm[]?]>([
    ["in Harbinger's own namespace", central, []],
    ['in the namespace of a tenant', theirs, [record]],
    ['in the namespace of a tenant, with the last ImagePrewarm that wants it', theirs, [record], []],
  ])('counts until its Pod is gone, and after that until its deadline: %s', async (_, of, prewarms, later = prewarms) => {
    const ground = new Ground();
    Object.assign(ground, { sets: [setOf(of)], prewarms });
    ground.show([podOf(of)]);
    expect(await ground.state(of)).toMatchObject({ state: 'pulling', inFlight: true });
    Object.assign(ground, { sets: [], prewarms: later });
    expect(await ground.state(of, 1_000)).toEqual({ state: 'absent', inFlight: true });
    expect(await ground.flows(of, 2 * POD_GRACE_MS)).toBe(true);
    ground.show([podOf(of, { deleting: true })]);
    expect(await ground.flows(of, 1_000)).toBe(true);
    ground.show([]);
    expect(await ground.flows(of, 1_000)).toBe(true);
    expect(await ground.flows(of, DEADLINE_MS)).toBe(false);
  });

  test('counts no more once its container ran, and is not warm either', async () => {
    const ground = new Ground();
    ground.sets = [setOf(central)];
    ground.show([podOf(central)]);
    await ground.state(central);
    ground.sets = [];
    ground.show([pod()]);
    expect(await ground.state(central)).toBeUndefined();
    ground.show([]);
    expect(await ground.state(central)).toBeUndefined();
  });

  test('may begin again by itself where it failed', async () => {
    const ground = new Ground();
    ground.show([podOf(central, { container: waiting('ImagePullBackOff', 'i/o timeout') })]);
    expect(await ground.state(central)).toEqual({ state: 'absent', inFlight: false, mayBegin: true });
    expect(await ground.state(central, 3 * DEADLINE_MS)).toBeUndefined();
  });

  test('begins nothing again on a node that died in mid-pull: who comes back ends what is being deleted', async () => {
    const ground = new Ground();
    ground.nodes = [node('n1', { ready: false }), node('n2')];
    ground.show([podOf(central, { deleting: true })]);
    expect(await ground.state(central)).toEqual({ state: 'absent', inFlight: true });
    expect(await ground.state(central, DEADLINE_MS)).toBeUndefined();
  });

  test("is known after a restart in Harbinger's own namespace, by what its Pod says", async () => {
    const lazy = puller('a', { runtimeClassName: 'nydus' });
    const made = pullerManifest(lazy, ['n1'], { namespace: OWN, program: 'p' }).spec.template;
    const raw = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...made.metadata, name: 'x', namespace: OWN, uid: 'x', creationTimestamp: new Date(T0).toISOString() },
      spec: { ...made.spec, nodeName: 'n1' },
      status: { phase: 'Pending' },
    };
    const ground = new Ground();
    ground.show([projectPullerPod(raw)]);
    expect(await ground.flows(lazy)).toBe(true);
    expect(await ground.flows(central)).toBe(false);
    ground.show([]);
    expect(await ground.flows(lazy)).toBe(true);
  });

  test.each<[string, PullerPod]>([
    ['another image than its hash', podOf(central, { image: image('b') })],
    ['the Pod of a tenant with the hash of a central puller', podOf(central, { namespace: 'team' })],
    ['the Pod of a tenant whose set nobody has seen', podOf(theirs)],
  ])('counts for nothing, nor once it is gone: %s', async (_, forged) => {
    const ground = new Ground();
    ground.prewarms = [record];
    ground.show([forged]);
    expect([await ground.flows(central), await ground.flows(theirs)]).toEqual([false, false]);
    ground.show([]);
    expect([await ground.flows(central), await ground.flows(theirs)]).toEqual([false, false]);
  });

  test('counts for nothing where a tenant made the Pod after its set was gone', async () => {
    const ground = new Ground();
    Object.assign(ground, { sets: [setOf(theirs, [])], prewarms: [record] });
    await ground.state(theirs);
    ground.sets = [];
    await ground.state(theirs, 1_000);
    await ground.state(theirs, POD_GRACE_MS);
    ground.show([podOf(theirs, { uid: 'forged' })]);
    expect(await ground.flows(theirs)).toBe(false);
    ground.show([]);
    expect(await ground.flows(theirs)).toBe(false);
  });

  test('counts for nothing where nobody owns the Pod of a tenant, while it is in doubt whether a set was made', async () => {
    const ground = new Ground();
    Object.assign(ground, { sets: [{ ...setOf(theirs), uid: '', doubtful: ['n1'] }], prewarms: [record] });
    const { ownerUid: _nobody, ...forged } = podOf(theirs, { node: 'n2' });
    ground.show([forged]);
    expect(await ground.state(theirs)).toMatchObject({ doubtful: true });
    expect(await ground.state(theirs, 0, 'n2')).toBeUndefined();
    ground.show([]);
    expect(await ground.state(theirs, 0, 'n2')).toBeUndefined();
  });

  test('counts no longer than it may hang where a tenant keeps its Pod from going', async () => {
    const ground = new Ground();
    Object.assign(ground, { sets: [setOf(theirs)], prewarms: [record] });
    ground.show([podOf(theirs)]);
    await ground.state(theirs);
    ground.sets = [];
    ground.show([podOf(theirs, { deleting: true })]);
    expect(await ground.flows(theirs, 3 * DEADLINE_MS - 1)).toBe(true);
    expect(await ground.flows(theirs, 1)).toBe(false);
  });

  test('counts beside the set that has taken its place: one of them may flow', async () => {
    const ground = new Ground();
    ground.sets = [{ ...setOf(central), uid: 'new' }];
    ground.show([podOf(central), podOf(central, { uid: 'p2', ownerUid: 'new', container: waiting('ImagePullBackOff', 'x') })]);
    expect(await ground.state(central)).toMatchObject({ state: 'failed', inFlight: true });
    ground.show([podOf(central), pod({ uid: 'p2', ownerUid: 'new' })]);
    expect(await ground.state(central)).toMatchObject({ state: 'warm', inFlight: false });
  });
});

test('a node of a write without an answer is owed no Pod until the write was seen', async () => {
  const ground = new Ground();
  ground.sets = [{ ...setOf(central), doubtful: ['n1'] }];
  expect(await ground.state(central)).toMatchObject({ state: 'pulling', doubtful: true });
  ground.sets = [setOf(central)];
  expect(await ground.state(central, 60_000)).toEqual({ state: 'pulling', inFlight: true });
  expect(await ground.state(central, POD_GRACE_MS)).toMatchObject({ state: 'failed', overdue: true });
});
