import { afterEach, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { defaultConfig } from '../../../src/config/load.js';
import { Manager } from '../../../src/controller/manager.js';
import type { Page, PageOptions, WatchEvent, WatchOptions, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import { EventRecorder } from '../../../src/kube/events.js';
import type { KubePort } from '../../../src/kube/port.js';
import { RESOURCE } from '../../../src/kube/resources.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';

type Raw = KubeObject & Record<string, unknown>;
const aborted = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(new Error('aborted'))));
type Client = KubePort & WatchPort;

/** An API server that answers lists of what it is given, keeps back those it is told to, and notes writes. Watches tell what it is told to tell. */
class Api {
  readonly writes: { what: string; body: unknown }[] = [];
  readonly refusals = new Map<string, KubeError>();
  readonly #objects: Record<string, Raw[]>;
  readonly #withheld = new Map<string, { wait: Promise<void>; give: () => void }>();
  readonly #watches = new Map<string, (event: WatchEvent) => void>();

  constructor(objects: Record<string, Raw[]>, withheld: readonly string[]) {
    this.#objects = objects;
    for (const plural of withheld) {
      let give: () => void = () => undefined;
      const wait = new Promise<void>((resolve) => (give = resolve));
      this.#withheld.set(plural, { wait, give });
    }
  }

  give(plural: string): void {
    this.#withheld.get(plural)?.give();
  }

  /** An event for whoever watches all objects of a kind. */
  tell(plural: string, event: WatchEvent): void {
    this.#watches.get(plural)?.(event);
  }

  get client(): Client {
    const write = (verb: string, resource: Resource, body: unknown): Promise<never> => {
      const what = `${verb} ${resource.plural}`;
      this.writes.push({ what, body });
      const refusal = this.refusals.get(what);
      return refusal === undefined ? Promise.resolve(body as never) : Promise.reject(refusal);
    };
    const client: Partial<Client> = {
      listPage: async <T extends KubeObject>(resource: Resource, options: PageOptions = {}) => {
        await Promise.race([this.#withheld.get(resource.plural)?.wait ?? Promise.resolve(), aborted(options.signal)]);
        // Of Pods none has a label that is asked for.
        const items = resource.plural === 'pods' && options.labelSelector !== undefined ? [] : this.#objects[resource.plural];
        return { items: items ?? [], resourceVersion: '1' } as unknown as Page<T>;
      },
      watch: <T extends KubeObject>(resource: Resource, options: WatchOptions = {}) =>
        this.#watch(resource, options) as AsyncIterable<WatchEvent<T>>,
      apply: (resource, object) => write('apply', resource, object),
      patch: (resource, _name, patch) => write('patch', resource, patch),
      create: (resource, object) => write('create', resource, object),
      delete: (resource, name) => write('delete', resource, name),
      get: (resource, name) =>
        Promise.reject(new KubeError(`get ${resource.plural} ${name.name}`, { status: 404, reason: 'NotFound' })),
    };
    return client as Client;
  }

  async *#watch({ plural }: Resource, { labelSelector, signal }: WatchOptions): AsyncGenerator<WatchEvent> {
    for (;;) {
      const told = new Promise<WatchEvent>((tell) => {
        if (labelSelector === undefined) this.#watches.set(plural, tell);
      });
      yield await Promise.race([told, aborted(signal)]);
    }
  }
}

const meta = (name: string, more: object = {}): KubeObject['metadata'] => ({
  name,
  namespace: 'team',
  uid: `${name}-uid`,
  resourceVersion: '5',
  creationTimestamp: '2025-12-31T23:00:00Z',
  ...more,
});
const raw = (metadata: KubeObject['metadata'], more: object): Raw => ({ apiVersion: 'v', kind: 'K', metadata, ...more });
const cluster = (name: string, more: object = {}): KubeObject['metadata'] => {
  const { namespace: _none, ...metadata } = meta(name, more);
  return metadata;
};

const CHECK = { name: 'images', state: 'Pending', message: '', lastTransitionTime: '2025-12-31T23:00:00Z' };
/** A gang that its Job opts in, with a hold of ten minutes that the check's parameters give, in a queue of one flavor. */
const OBJECTS: Record<string, Raw[]> = {
  [RESOURCE.jobs.plural]: [raw(meta('train', { annotations: { 'harbinger.dev/prewarm': 'true' } }), {})],
  [RESOURCE.workloads.plural]: [
    raw(
      meta('job-train', {
        ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'train-uid', controller: true }],
      }),
      {
        spec: {
          queueName: 'gpu',
          active: true,
          podSets: [{ name: 'main', count: 1, template: { spec: { containers: [{ image: 'train:1' }] } } }],
        },
        status: { admissionChecks: [CHECK] },
      },
    ),
  ],
  [RESOURCE.localQueues.plural]: [raw(meta('gpu'), { spec: { clusterQueue: 'cq' } })],
  [RESOURCE.clusterQueues.plural]: [raw(cluster('cq'), { spec: { resourceGroups: [{ flavors: [{ name: 'h100' }] }] } })],
  [RESOURCE.resourceFlavors.plural]: [raw(cluster('h100'), { spec: { nodeLabels: { pool: 'h100' } } })],
  [RESOURCE.admissionChecks.plural]: [
    raw(cluster('images'), {
      spec: { controllerName: 'harbinger.dev/image-prewarm' },
      status: {
        conditions: [
          {
            type: 'Active',
            status: 'True',
            reason: 'Active',
            message: 'Harbinger answers this check',
            lastTransitionTime: '2025-12-31T23:00:00Z',
          },
        ],
      },
    }),
  ],
  [RESOURCE.namespaces.plural]: [raw(cluster('team'), {})],
};

const running: { manager: Manager; clock: FakeClock; events: EventRecorder }[] = [];
afterEach(async () => {
  for (const { manager, clock, events } of running.splice(0)) {
    const stopped = Promise.all([manager.stop(), events.stop()]);
    await clock.advance(60_000);
    await stopped;
  }
});

async function lead(
  withheld: readonly string[] = [],
  objects = OBJECTS,
): Promise<{ api: Api; clock: FakeClock; manager: Manager; lines: ReturnType<typeof keepLog>['lines'] }> {
  const [api, clock, metrics, { log, lines }] = [new Api(objects, withheld), new FakeClock(), new Metrics(), keepLog()];
  const events = new EventRecorder({ client: api.client, controller: 'c', instance: 'i', clock, log, metrics });
  const registry = {
    manifest: () => Promise.reject(new Error('no registry')),
    config: () => Promise.reject(new Error('no registry')),
    referrers: () => Promise.reject(new Error('no registry')),
  };
  const manager = new Manager({
    client: api.client,
    registry: () => registry,
    config: defaultConfig,
    events,
    clock,
    monotonic: () => clock.now(),
    log,
    metrics,
    namespace: 'harbinger-system',
    pullerImage: 'puller',
    leading: () => true,
    failpoint: () => undefined,
  });
  running.push({ manager, clock, events });
  manager.follow();
  void manager.lead();
  await clock.advance(2_000);
  return { api, clock, manager, lines };
}
/** The classes of nodes are published beside all else, whatever there is of gangs. */
const written = (api: Api): string[] =>
  api.writes.map((w) => w.what).filter((w) => !w.endsWith(' events') && !w.endsWith(' configmaps'));

describe('a new leader', () => {
  test('records what an opted-in gang needs warm and says nothing about the check that it may have', async () => {
    const { api } = await lead();
    expect(written(api)).toEqual(expect.arrayContaining(['apply imageprewarms']));
    expect(JSON.stringify(api.writes)).not.toContain('not opted in');
    expect(JSON.stringify(api.writes.find((w) => w.what === 'apply imageprewarms'))).toContain('h100');
  });

  test('publishes what nodes there are', async () => {
    const { api } = await lead([], { ...OBJECTS, [RESOURCE.nodes.plural]: [raw(cluster('n'), { status: {} })] });
    const published = api.writes.filter((w) => w.what === 'apply configmaps');
    expect(published.map((w) => JSON.stringify(w.body))).toEqual([expect.stringContaining('linux/amd64')]);
  });
  test('publishes nothing of nodes that it does not know yet', async () => {
    const { api } = await lead([RESOURCE.nodes.plural]);
    expect(api.writes.filter((w) => w.what === 'apply configmaps')).toEqual([]);
  });

  // Each of them alone would make the gang look like another one; policies and configurations change what it is given.
  const needed = [
    RESOURCE.jobs,
    RESOURCE.workloads,
    RESOURCE.admissionChecks,
    RESOURCE.prewarmCheckConfigs,
    RESOURCE.accelerationPolicies,
    RESOURCE.namespaces,
    RESOURCE.nodes,
    RESOURCE.imagePrewarms,
  ];
  test.each(needed.map((r) => r.plural))('writes nothing about gangs until %s are known, and then all of it', async (plural) => {
    const { api, clock } = await lead([plural]);
    await clock.advance(600_000);
    expect(written(api)).toEqual([]);
    api.give(plural);
    await clock.advance(2_000);
    expect(written(api)).toContain('apply imageprewarms');
    expect(JSON.stringify(api.writes)).not.toContain('not opted in');
  });

  // Where a gang may run decides what is warmed, not whether a check is answered: a list that fails must hold nobody.
  const placing = [RESOURCE.clusterQueues, RESOURCE.localQueues, RESOURCE.resourceFlavors].map((r) => r.plural);
  test.each(placing)('asks for nothing to be warmed until %s are known, and then for all of it', async (plural) => {
    const { api, clock } = await lead([plural]);
    await clock.advance(600_000);
    expect(new Set(written(api))).toEqual(new Set(['patch workloads']));
    expect(JSON.stringify(api.writes)).not.toContain('"Ready"');
    api.give(plural);
    await clock.advance(2_000);
    expect(written(api)).toContain('apply imageprewarms');
  });
  test.each(placing)('lets a gang go that did not opt in although %s are not known', async (plural) => {
    const { api } = await lead([plural], { ...OBJECTS, [RESOURCE.jobs.plural]: [raw(meta('train'), {})] });
    expect(new Set(written(api))).toEqual(new Set(['patch workloads']));
    expect(JSON.stringify(api.writes)).toContain('not opted in');
  });

  test('the control: a gang whose Job does not opt in is let go at once', async () => {
    const { api } = await lead([], { ...OBJECTS, [RESOURCE.jobs.plural]: [raw(meta('train'), {})] });
    expect(new Set(written(api))).toEqual(new Set(['patch workloads']));
    expect(JSON.stringify(api.writes)).toContain('not opted in');
  });

  test('waits a moment for the Job of a new Workload, and no longer', async () => {
    const [workload] = OBJECTS[RESOURCE.workloads.plural] ?? [];
    const fresh = { ...workload, metadata: { ...workload?.metadata, creationTimestamp: '2026-01-01T00:00:00Z' } } as Raw;
    const { api, clock } = await lead([], { ...OBJECTS, [RESOURCE.jobs.plural]: [], [RESOURCE.workloads.plural]: [fresh] });
    expect(written(api)).toEqual([]);
    await clock.advance(5_000);
    expect(written(api)).toEqual(['patch workloads']);
  });

  test('an ImagePrewarm without a gang needs nothing of Kueue', async () => {
    const spec = {
      targets: [{ name: 'main', images: [{ reference: 'a' }], nodes: { selector: {} } }],
      pin: 'AtRelease',
      retain: 'Always',
      spareNodes: 0,
      suspend: false,
    };
    const { api } = await lead([RESOURCE.workloads.plural], {
      [RESOURCE.imagePrewarms.plural]: [raw(meta('by-hand', { generation: 1 }), { spec })],
    });
    expect(written(api)).toEqual(['apply imageprewarms']);
  });
  test('while one of a gang keeps its pullers and its status as they are', async () => {
    const spec = {
      gangRef: { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'train-uid' },
      targets: [{ name: 'main', images: [{ reference: 'a' }], nodes: { selector: {} } }],
      pin: 'AtRelease',
      retain: 'UntilGangStarts',
      spareNodes: 0,
      suspend: false,
    };
    const { api } = await lead([RESOURCE.workloads.plural], {
      [RESOURCE.imagePrewarms.plural]: [raw(meta('of-a-gang', { generation: 1 }), { spec })],
    });
    expect(written(api)).toEqual([]);
  });
});

describe('a gang whose ImagePrewarm is refused', () => {
  const refuse = (api: Api, status: number): void =>
    void api.refusals.set(
      'apply imageprewarms',
      new KubeError(`${status} exceeded quota: count/imageprewarms`, { status, reason: 'Forbidden' }),
    );

  test('has the refusal on its check, and is tried again once a minute', async () => {
    const { api, clock, lines } = await lead([RESOURCE.workloads.plural]);
    refuse(api, 403);
    api.give(RESOURCE.workloads.plural);
    await clock.advance(10_000);
    expect(JSON.stringify(api.writes.filter((w) => w.what === 'patch workloads'))).toContain(
      'what Job train needs warm cannot be recorded: 403 exceeded quota',
    );
    expect(written(api).filter((w) => w === 'apply imageprewarms')).toHaveLength(1);
    await clock.advance(60_000);
    expect(written(api).filter((w) => w === 'apply imageprewarms')).toHaveLength(2);
    expect(lines.filter((l) => l.level >= 40 && l['refusal'] !== undefined)).toHaveLength(1);
  });
  test('the control: a server that is away is no refusal', async () => {
    const { api, clock } = await lead([RESOURCE.workloads.plural]);
    refuse(api, 503);
    api.give(RESOURCE.workloads.plural);
    await clock.advance(2_000);
    expect(JSON.stringify(api.writes)).not.toContain('cannot be recorded');
  });
});

test('what keeps a check from being answered, for ten minutes or more, does so for half a minute at most once it is over', async () => {
  const { api, clock } = await lead([RESOURCE.workloads.plural], {
    ...OBJECTS,
    [RESOURCE.jobs.plural]: [raw(meta('train'), {})],
  });
  api.refusals.set('patch workloads', new KubeError('its webhook is away', { status: 500, reason: 'InternalError' }));
  api.give(RESOURCE.workloads.plural);
  await clock.advance(1_100_000);
  const before = written(api).length;
  await clock.advance(30_000);
  expect(written(api).slice(before)).toEqual(['patch workloads']);
});

describe('a gang that Kueue admitted and says nothing more of', () => {
  const conditions = ['QuotaReserved', 'Admitted'].map((type) => ({
    type,
    status: 'True',
    lastTransitionTime: '2025-12-31T23:59:59Z',
  }));
  const member = (name: string, phase: string, resourceVersion: string): Raw =>
    raw(meta(name, { resourceVersion, ownerReferences: [{ kind: 'Job', name: 'train', uid: 'train-uid', controller: true }] }), {
      spec: { nodeName: 'n' },
      status: { phase },
    });
  const admittedGang = (): Record<string, Raw[]> => {
    const [workload] = OBJECTS[RESOURCE.workloads.plural] ?? [];
    const spec = workload?.['spec'] as { podSets: object[] };
    return {
      ...OBJECTS,
      [RESOURCE.workloads.plural]: [
        {
          ...workload,
          spec: { ...spec, podSets: spec.podSets.map((p) => ({ ...p, count: 2 })) },
          status: { conditions, admission: { clusterQueue: 'cq', podSetAssignments: [{ name: 'main', count: 2 }] } },
        } as Raw,
      ],
      [RESOURCE.imagePrewarms.plural]: [
        raw(meta('train-1', { generation: 1 }), {
          spec: {
            gangRef: { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'train-uid' },
            targets: [{ name: 'main', images: [{ reference: 'a' }], nodes: { selector: {} } }],
            pin: 'AtRelease',
            retain: 'UntilGangStarts',
            spareNodes: 0,
            suspend: false,
          },
        }),
      ],
      [RESOURCE.pods.plural]: [member('a', 'Pending', '5'), member('b', 'Pending', '5')],
    };
  };
  const statuses = (api: Api): string[] =>
    api.writes.filter((w) => w.what === 'apply imageprewarms').map((w) => JSON.stringify(w.body));

  test('has its images, and is told so, once its last Pod runs and not before', async () => {
    const { api, clock } = await lead([], admittedGang());
    api.tell('pods', { type: 'MODIFIED', object: member('a', 'Running', '6') });
    await clock.advance(120_000);
    expect(statuses(api).length).toBeGreaterThan(0);
    expect(statuses(api).filter((s) => s.includes('Finished'))).toEqual([]);
    api.tell('pods', { type: 'MODIFIED', object: member('b', 'Running', '7') });
    await clock.advance(2_000);
    expect(statuses(api).at(-1)).toContain('Finished');
  });
});
