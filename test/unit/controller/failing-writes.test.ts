import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { KubeObject } from '../../../src/api/object.js';
import { defaultConfig } from '../../../src/config/load.js';
import type { Action } from '../../../src/controller/actions.js';
import type { PlannerLoopOptions } from '../../../src/controller/pullers/planner-loop.js';
import { PlannerLoop } from '../../../src/controller/pullers/planner-loop.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import { KubeError } from '../../../src/kube/errors.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import { pullerOf } from '../../../src/preheat/puller.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { pod } from '../preheat/fixtures.js';
import { condition, context, iso, prewarm, recorded, resolvedOf, snapshot, SOURCE, T0 } from './fixtures.js';

const NODES = ['n1', 'n2', 'n3', 'n4'].map((n) => node(n));
const broken = new KubeError('patch daemonsets: 500 InternalError: failed calling webhook "policy.corp"', {
  status: 500,
  reason: 'InternalError',
});
const silent = new KubeError('patch daemonsets: the API server did not answer within 10000 ms', { status: 0, reason: 'Timeout' });
const full = new KubeError('patch daemonsets: 429 TooManyRequests', { status: 429, reason: 'TooManyRequests' });

const HASH = pullerOf(resolvedOf('a'))?.hash ?? '';

/** The loop of plans, run whenever it asks to be, over an API server that stores DaemonSets, whose Pods are warm at once, or fails. */
class Ground {
  now = 0;
  count = 3;
  wanted = true;
  /** Nodes of each set that was sent. */
  readonly sent: string[][] = [];
  trouble: KubeError | undefined;
  /** When a write was done for the first time, in seconds. */
  doneAt: number | undefined;
  /** What Ready said after each plan, with the time of the plan in seconds. */
  readonly said: { at: number; reason: string; message: string; failed: string }[] = [];
  readonly #rampUp: 'SlowStart' | 'Immediate';
  readonly #sets = new Map<string, PullerSet>();
  readonly #loop: PlannerLoop;
  /** A cache hears of what was stored. */
  #isNews = false;

  constructor(rampUp: 'SlowStart' | 'Immediate' = 'SlowStart') {
    this.#rampUp = rampUp;
    const nothing = { list: () => [], byIndex: () => [], get: () => undefined, onChange: () => undefined };
    const options: Partial<Record<keyof PlannerLoopOptions, unknown>> = {
      caches: {
        ...{ rejections: nothing, runtimeClasses: nothing, workloads: nothing },
        prewarms: { list: () => (this.wanted ? [this.prewarm] : []) },
        pods: { list: () => this.#pods(), onChange: () => undefined },
        sets: { list: () => [...this.#sets.values()], onChange: () => undefined },
        nodes: { list: () => NODES, get: () => NODES[0] },
        nodeUsage: { roomFor: () => undefined },
      },
      views: { positions: () => new Map(), workloadOf: () => undefined, isUnknown: () => false },
      metrics: { count: () => undefined },
      config: defaultConfig,
      clock: { now: () => T0 + this.now },
      monotonic: () => this.now,
      log: { info: () => undefined, warn: () => undefined, debug: () => undefined },
      namespace: 'harbinger-system',
      program: 'p',
      actuator: { perform: (action: Action) => this.#perform(action) },
      onChange: () => undefined,
    };
    this.#loop = new PlannerLoop(options as unknown as PlannerLoopOptions);
  }

  get tries(): number {
    return this.sent.length;
  }

  get prewarm(): ImagePrewarm {
    const targets = [{ name: 'main', images: [{ reference: SOURCE }], nodes: { selector: {}, count: this.count } }];
    return prewarm({ targets: recorded() }, { targets, pull: { rampUp: this.#rampUp, busyNodes: 'Allow' } });
  }

  #pods(): PullerPod[] {
    return [...this.#sets.values()].flatMap(({ hash, image, nodes }) =>
      nodes.map((name) => pod({ name, uid: name, ownerUid: 'u', node: name, hash, image })),
    );
  }

  #perform(action: Action): Promise<KubeObject | undefined> {
    if (action.type !== 'create-pullers' && action.type !== 'update-pullers') return Promise.resolve(undefined);
    const { object } = action;
    this.sent.push(projectPullerSet(object).nodes);
    if (this.trouble !== undefined) return Promise.reject(this.trouble);
    const stored = { ...object, metadata: { ...object.metadata, uid: 'u', resourceVersion: String(this.tries) } };
    this.#sets.set(object.metadata.name, projectPullerSet(stored));
    this.#isNews = true;
    this.doneAt ??= this.now / 1_000;
    return Promise.resolve(stored);
  }

  async until(end: number): Promise<this> {
    while (this.now < end) {
      const { after = 60_000 } = await this.#loop.reconcile();
      const plan = this.#loop.planOf('team/p');
      if (plan !== undefined) {
        const known = snapshot({ prewarm: this.prewarm, ...plan });
        const { status } = decidePrewarm(known, context({ now: T0 + this.now }));
        const { reason = '', message = '' } = condition(status, 'Ready') ?? {};
        this.said.push({ at: this.now / 1_000, reason, message, failed: condition(status, 'Failed')?.status ?? '' });
      }
      this.now += this.#isNews ? 100 : Math.max(after, 100);
      this.#isNews = false;
    }
    return this;
  }
}

/** What was said, without what was said before it. */
const turns = ({ said }: Ground): Ground['said'] => said.filter((s, i) => s.message !== said[i - 1]?.message);

describe('writes of pullers that fail for a reason that is not theirs', () => {
  test.each([
    [
      'a webhook of somebody does not answer',
      broken,
      /500 InternalError: failed calling webhook "policy.corp"; mend that admission webhook/,
    ],
    [
      'the API server does not answer',
      silent,
      /did not answer within 10000 ms; it is tried again every minute; .* look at the API server/,
    ],
    ['the API server is full', full, /429 TooManyRequests; it is tried again every minute/],
  ])('are told once they are no hiccup, in one and the same words, and never end a hold: %s', async (_, trouble, words) => {
    const ground = new Ground();
    ground.trouble = trouble;
    await ground.until(600_000);
    expect(turns(ground).map(({ at, reason }) => [at, reason])).toEqual([
      [0, 'PullingImages'],
      [15, 'PullersRejected'],
    ]);
    const { message = '' } = ground.said.at(-1) ?? {};
    expect(message).toMatch(words);
    expect(message).toContain(`DaemonSet harbinger-system/puller-${HASH} cannot be written since ${iso(T0)}`);
    expect(new Set(ground.said.map((s) => s.failed))).toEqual(new Set(['False']));
    expect(ground.tries).toBeGreaterThan(10);
  });

  test('are told in the same words although each try has another connection', async () => {
    const ground = new Ground();
    for (let port = 50_000; ground.now < 300_000; port += 1) {
      const words = `patch daemonsets: read tcp 10.0.0.1:${port}->10.0.0.2:443: connection reset by peer`;
      ground.trouble = new KubeError(words, { status: 0, reason: 'Timeout' });
      await ground.until(ground.now + 5_000);
    }
    const told = turns(ground).filter((s) => s.reason === 'PullersRejected');
    expect(told.map((s) => s.message)).toEqual([expect.stringContaining('read tcp 10.0.0.2:443: connection reset by peer')]);
  });

  test('are told no more as soon as one succeeds', async () => {
    const ground = new Ground();
    ground.trouble = broken;
    await ground.until(100_000);
    ground.trouble = undefined;
    await ground.until(200_000);
    // By the very plan with which it was done.
    const doneAt = ground.doneAt ?? Number.NaN;
    expect(doneAt).toBeGreaterThanOrEqual(100);
    expect(ground.said.filter((s) => s.at >= doneAt).map((s) => s.reason)).not.toContain('PullersRejected');
    expect(ground.said.at(-1)).toMatchObject({ reason: 'AllNodesWarm' });
  });

  test.each([
    ['that is over before the fifth try', 10_000, broken],
    ['of which there is one try', 14_000, new KubeError('later', { status: 503, reason: 'Busy', retryAfterMs: 14_000 })],
  ])('are not told for a hiccup: %s', async (_, endMs, trouble) => {
    const ground = new Ground();
    ground.trouble = trouble;
    await ground.until(endMs);
    ground.trouble = undefined;
    await ground.until(60_000);
    expect(ground.said.map((s) => s.reason)).not.toContain('PullersRejected');
    expect(ground.said.at(-1)).toMatchObject({ reason: 'AllNodesWarm' });
  });

  test('are told beside what is warm already', async () => {
    const ground = new Ground();
    await ground.until(30_000);
    ground.trouble = broken;
    ground.count = 4;
    await ground.until(120_000);
    expect(ground.said.at(-1)).toMatchObject({ reason: 'PullersRejected', failed: 'False' });
    expect(ground.said.at(-1)?.message).toMatch(/^3\/4 nodes warm; n4: DaemonSet/);
  });

  test('ask for one node alone, where all were to begin at once, and the rest begins with it', async () => {
    const ground = new Ground('Immediate');
    ground.trouble = silent;
    await ground.until(100_000);
    expect(ground.sent.at(0)).toEqual(['n1', 'n2', 'n3']);
    expect(ground.sent.at(-1)).toEqual(['n1']);
    expect(
      turns(ground)
        .filter((s) => s.reason !== 'PullingImages')
        .map((s) => s.reason),
    ).toEqual(['PullersRejected']);
    ground.trouble = undefined;
    await ground.until(200_000);
    expect(ground.said.at(-1)).toMatchObject({ reason: 'AllNodesWarm' });
  });

  test.each([
    ['nobody wants the set for a while', (ground: Ground) => (ground.wanted = false)],
    [
      'the API server says something of the set',
      (ground: Ground) => (ground.trouble = new KubeError('conflict', { status: 409, reason: 'Conflict' })),
    ],
  ])('begin anew where %s', async (_, happens) => {
    const ground = new Ground();
    ground.trouble = broken;
    await ground.until(100_000);
    expect(ground.said.at(-1)).toMatchObject({ reason: 'PullersRejected' });
    happens(ground);
    await ground.until(200_000);
    [ground.wanted, ground.trouble] = [true, broken];
    const at = ground.now / 1_000;
    await ground.until(ground.now + 10_000);
    expect(ground.said.filter((s) => s.at >= at + 1).map((s) => s.reason)).not.toContain('PullersRejected');
    await ground.until(ground.now + 60_000);
    expect(ground.said.at(-1)).toMatchObject({ reason: 'PullersRejected' });
  });
});
