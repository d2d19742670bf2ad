import { at } from '../../../../src/api/json.js';
import type { KubeObject } from '../../../../src/api/object.js';
import type { WatchPort } from '../../../../src/kube/client.js';
import { KubeError } from '../../../../src/kube/errors.js';
import type { KubePort, PatchOp } from '../../../../src/kube/port.js';
import { RESOURCE } from '../../../../src/kube/resources.js';

type Client = KubePort & WatchPort;
type Raw = KubeObject & Record<string, unknown>;

/** What one call came to: what of the object matters, or the refusal. */
export type Answer = { value: unknown } | { status: number; reason: string };

export interface Step {
  /** The rule that the call shows. */
  title: string;
  call: (client: Client, ns: string) => Promise<unknown>;
  expected: Answer;
}

const { configMaps, imagePrewarms, daemonSets } = RESOURCE;
const map = (ns: string, data: Record<string, string>, more: object = {}): Raw => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', namespace: ns, ...more },
  data,
});
const targets = (...names: string[]) =>
  names.map((name) => ({ name, images: [{ reference: 'train:1' }], nodes: { selector: {} } }));
const prewarm = (ns: string, spec: object, more: object = {}): Raw => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'ImagePrewarm',
  metadata: { name: 'p', namespace: ns, ...more },
  spec,
});
const status = (ns: string, body: object, more: object = {}): Raw => {
  const { spec: _spec, ...object } = prewarm(ns, {}, more);
  return { ...object, status: body };
};
const condition = (type: string, value: string) => ({
  type,
  status: value,
  reason: 'Test',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const set = (ns: string, app: string, nodes: string[]): Raw => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name: 'd', namespace: ns },
  spec: {
    selector: { matchLabels: { app } },
    template: {
      metadata: { labels: { app } },
      spec: {
        containers: [{ name: 'c', image: 'c:1' }],
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: nodes.map((n) => ({ matchFields: [{ key: 'metadata.name', operator: 'In', values: [n] }] })),
            },
          },
        },
      },
    },
  },
});
const nodesOf = (object: unknown): unknown =>
  at(object, 'spec', 'template', 'spec', 'affinity', 'nodeAffinity', 'requiredDuringSchedulingIgnoredDuringExecution')[
    'nodeSelectorTerms'
  ];
const data = (object: unknown): unknown => at(object)['data'];
const generation = (object: KubeObject): unknown => object.metadata.generation;
const names = (object: unknown): unknown => (at(object, 'spec')['targets'] as { name: string }[]).map((t) => t.name);
const conditions = (object: unknown): unknown =>
  (at(object, 'status')['conditions'] as { type: string; status: string }[] | undefined)?.map((c) => `${c.type}=${c.status}`);
const a = (ns: string) => ({ namespace: ns, name: 'a' });
const p = (ns: string) => ({ namespace: ns, name: 'p' });

/** Calls in their order, each on what those before left behind: the rules that the controller counts on. */
export const TRACE: readonly Step[] = [
  { title: 'what is absent is 404', call: (c, ns) => c.get(configMaps, a(ns)), expected: { status: 404, reason: 'NotFound' } },
  {
    title: 'apply makes what is absent',
    call: async (c, ns) => data(await c.apply(configMaps, map(ns, { x: '1', y: '1' }), 'one')),
    expected: { value: { x: '1', y: '1' } },
  },
  {
    title: 'create of what exists is 409 AlreadyExists',
    call: (c, ns) => c.create(configMaps, map(ns, {})),
    expected: { status: 409, reason: 'AlreadyExists' },
  },
  {
    title: 'a write that changes nothing makes no version',
    call: async (c, ns) => {
      const before = await c.get(configMaps, a(ns));
      const after = await c.apply(configMaps, map(ns, { x: '1', y: '1' }), 'one');
      return before.metadata.resourceVersion === after.metadata.resourceVersion;
    },
    expected: { value: true },
  },
  {
    title: 'another manager adds its field',
    call: async (c, ns) => data(await c.apply(configMaps, map(ns, { z: '2' }), 'two')),
    expected: { value: { x: '1', y: '1', z: '2' } },
  },
  {
    title: 'what a manager does not apply any more goes',
    call: async (c, ns) => data(await c.apply(configMaps, map(ns, { x: '1' }), 'one')),
    expected: { value: { x: '1', z: '2' } },
  },
  {
    title: 'a merge patch takes a field away from its manager, and null removes',
    call: async (c, ns) => data(await c.patch(configMaps, a(ns), { type: 'merge', body: { data: { x: 'mine', z: null } } })),
    expected: { value: { x: 'mine' } },
  },
  {
    title: 'so the manager that leaves it out does not remove it',
    call: async (c, ns) => data(await c.apply(configMaps, map(ns, { y: '3' }), 'one')),
    expected: { value: { x: 'mine', y: '3' } },
  },
  {
    title: 'apply over another version is 409 Conflict',
    call: (c, ns) => c.apply(configMaps, map(ns, { y: '4' }, { resourceVersion: '1' }), 'one'),
    expected: { status: 409, reason: 'Conflict' },
  },
  {
    title: 'a merge patch with another version is 409 Conflict',
    call: (c, ns) =>
      c.patch(configMaps, a(ns), { type: 'merge', body: { metadata: { resourceVersion: '1' }, data: { x: 'y' } } }),
    expected: { status: 409, reason: 'Conflict' },
  },
  {
    title: 'a JSON patch whose test fails is 422',
    call: (c, ns) =>
      c.patch(configMaps, a(ns), { type: 'json', ops: [{ op: 'test', path: '/metadata/resourceVersion', value: '1' }] }),
    expected: { status: 422, reason: 'Invalid' },
  },
  {
    title: 'a JSON patch whose test holds is done',
    call: async (c, ns) => {
      const { metadata } = await c.get(configMaps, a(ns));
      const test = { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion } as const;
      return data(await c.patch(configMaps, a(ns), { type: 'json', ops: [test, { op: 'add', path: '/data/w', value: '5' }] }));
    },
    expected: { value: { w: '5', x: 'mine', y: '3' } },
  },
  {
    title: 'a JSON patch on a path that leads nowhere is 422',
    call: (c, ns) => c.patch(configMaps, a(ns), { type: 'json', ops: [{ op: 'replace', path: '/data/none/deep', value: '1' }] }),
    expected: { status: 422, reason: 'Invalid' },
  },
  {
    title: 'a patch of what is absent is 404',
    call: (c, ns) => c.patch(configMaps, { namespace: ns, name: 'none' }, { type: 'merge', body: {} }),
    expected: { status: 404, reason: 'NotFound' },
  },
  { title: 'a label selector selects', call: (c, ns) => count(c, ns, 'team=a'), expected: { value: 0 } },
  {
    title: 'delete of another UID is 409 Conflict',
    call: (c, ns) => c.delete(configMaps, a(ns), { uid: '00000000-0000-4000-8000-00000000ffff' }),
    expected: { status: 409, reason: 'Conflict' },
  },
  {
    title: 'a custom resource gets the defaults of its schema, and generation 1',
    call: async (c, ns) => {
      const made = await c.apply<Raw>(imagePrewarms, prewarm(ns, { targets: targets('x', 'y') }), 'gangs');
      const { pin, retain, suspend } = at(made, 'spec');
      return [pin, retain, suspend, generation(made)];
    },
    expected: { value: ['AtRelease', 'UntilGangStarts', false, 1] },
  },
  {
    title: 'its schema refuses with 422',
    call: (c, ns) => c.apply(imagePrewarms, prewarm(ns, { targets: targets('x'), pin: 'Sometimes' }), 'gangs'),
    expected: { status: 422, reason: 'Invalid' },
  },
  {
    title: 'status is left out of a write of the object',
    call: async (c, ns) =>
      at(await c.patch(imagePrewarms, p(ns), { type: 'merge', body: { status: { gang: 'g' } } }))['status'] ?? null,
    expected: { value: null },
  },
  {
    title: 'status has its own subresource, which leaves spec and generation alone',
    call: async (c, ns) => {
      const body = { conditions: [condition('Ready', 'False'), condition('Failed', 'False')] };
      const stored = await c.apply<Raw>(imagePrewarms, status(ns, body), 'status', { subresource: 'status' });
      return [conditions(stored), names(stored), generation(stored)];
    },
    expected: { value: [['Ready=False', 'Failed=False'], ['x', 'y'], 1] },
  },
  {
    title: 'conditions are a map by type: one that is not applied any more goes',
    call: async (c, ns) =>
      conditions(
        await c.apply(imagePrewarms, status(ns, { conditions: [condition('Ready', 'True')] }), 'status', {
          subresource: 'status',
        }),
      ),
    expected: { value: ['Ready=True'] },
  },
  {
    title: 'targets are a map by name, and a change of the spec counts a generation',
    call: async (c, ns) => {
      const stored = await c.apply(imagePrewarms, prewarm(ns, { targets: targets('y') }), 'gangs');
      return [names(stored), generation(stored), conditions(stored)];
    },
    expected: { value: [['y'], 2, ['Ready=True']] },
  },
  {
    title: 'a JSON patch of the status whose test of the version holds is done, and leaves the spec alone',
    call: async (c, ns) => {
      const { metadata } = await c.get(imagePrewarms, p(ns));
      const ops: PatchOp[] = [
        { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
        { op: 'replace', path: '/status/conditions/0/status', value: 'False' },
        { op: 'replace', path: '/spec/suspend', value: true },
      ];
      const stored = await c.patch(imagePrewarms, p(ns), { type: 'json', ops }, { subresource: 'status' });
      return [conditions(stored), at(stored, 'spec')['suspend'], generation(stored)];
    },
    expected: { value: [['Ready=False'], false, 2] },
  },
  {
    title: 'on a version that is not the newest any more it is 422, and nothing is written',
    call: async (c, ns) => {
      const { metadata } = await c.get(imagePrewarms, p(ns));
      await c.patch(imagePrewarms, p(ns), { type: 'merge', body: { metadata: { labels: { seen: 'yes' } } } });
      const ops: PatchOp[] = [
        { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
        { op: 'replace', path: '/status/conditions/0/status', value: 'True' },
      ];
      const refused = await refusalOf(c.patch(imagePrewarms, p(ns), { type: 'json', ops }, { subresource: 'status' }));
      return [refused, conditions(await c.get(imagePrewarms, p(ns)))];
    },
    expected: { value: ['422 Invalid', ['Ready=False']] },
  },
  {
    title: 'a status over an older version is 409 Conflict',
    call: (c, ns) => c.apply(imagePrewarms, status(ns, {}, { resourceVersion: '1' }), 'status', { subresource: 'status' }),
    expected: { status: 409, reason: 'Conflict' },
  },
  {
    title: 'a status of what is absent is 404',
    call: (c, ns) => c.apply(imagePrewarms, status(ns, {}, { name: 'none' }), 'status', { subresource: 'status' }),
    expected: { status: 404, reason: 'NotFound' },
  },
  {
    title: 'node terms of a DaemonSet are one list: another one takes its place',
    call: async (c, ns) => {
      await c.apply(daemonSets, set(ns, 'a', ['n1', 'n2']), 'pullers');
      const stored = await c.apply(daemonSets, set(ns, 'a', ['n3']), 'pullers');
      return [(nodesOf(stored) as unknown[]).length, generation(stored)];
    },
    expected: { value: [1, 2] },
  },
  {
    title: 'its selector cannot be changed: 422',
    call: (c, ns) => c.apply(daemonSets, set(ns, 'b', ['n3']), 'pullers'),
    expected: { status: 422, reason: 'Invalid' },
  },
  {
    title: 'what has a finalizer stays, marked, until that is taken off',
    call: async (c, ns) => {
      const held = { namespace: ns, name: 'held' };
      await c.create(configMaps, map(ns, {}, { name: held.name, finalizers: ['harbinger.dev/test'] }));
      await c.delete(configMaps, held);
      const { deletionTimestamp } = (await c.get(configMaps, held)).metadata;
      await c.patch(configMaps, held, { type: 'merge', body: { metadata: { finalizers: null } } });
      return [typeof deletionTimestamp, await refusalOf(c.get(configMaps, held))];
    },
    expected: { value: ['string', '404 NotFound'] },
  },
  {
    title: 'a watch from a version that is kept no more is 410 Expired',
    call: async (c, ns) => {
      for await (const { type } of c.watch(imagePrewarms, { namespace: ns, resourceVersion: '1', timeoutSeconds: 5 }))
        return type;
      return 'nothing';
    },
    expected: { status: 410, reason: 'Expired' },
  },
  {
    title: 'a field that cannot select is 400',
    call: (c, ns) => c.listPage(configMaps, { namespace: ns, fieldSelector: 'data.x=1' }),
    expected: { status: 400, reason: 'BadRequest' },
  },
  {
    title: 'a list goes page by page, all from one version',
    call: async (c, ns) => {
      for (const name of ['b', 'c']) await c.create(configMaps, map(ns, {}, { name, labels: { paged: 'yes' } }));
      const first = await c.listPage(configMaps, { namespace: ns, labelSelector: 'paged=yes', limit: 1 });
      const second = await c.listPage(configMaps, {
        namespace: ns,
        labelSelector: 'paged=yes',
        limit: 1,
        continue: first.continue ?? '',
      });
      // Of selected objects the server may not know that it has given the last one, and offers another page.
      const same = first.resourceVersion === second.resourceVersion;
      return [first.continue !== undefined, same, [first, second].map((page) => page.items.map((i) => i.metadata.name))];
    },
    expected: { value: [true, true, [['b'], ['c']]] },
  },
  {
    title: 'a watch tells what came after its version; what leaves the selection counts as deleted',
    call: watched,
    expected: { value: ['MODIFIED b', 'DELETED c', 'ADDED c', 'DELETED b'] },
  },
];

async function count(client: Client, namespace: string, labelSelector: string): Promise<number> {
  return (await client.listPage(configMaps, { namespace, labelSelector })).items.length;
}

async function watched(client: Client, ns: string): Promise<string[]> {
  const selection = { namespace: ns, labelSelector: 'paged=yes' };
  const { resourceVersion } = await client.listPage(configMaps, selection);
  const label = (name: string, paged: string) =>
    client.patch(configMaps, { namespace: ns, name }, { type: 'merge', body: { metadata: { labels: { paged } } } });
  await client.patch(configMaps, { namespace: ns, name: 'b' }, { type: 'merge', body: { data: { k: 'v' } } });
  await label('c', 'no');
  await label('c', 'yes');
  await client.delete(configMaps, { namespace: ns, name: 'b' });
  const told: string[] = [];
  for await (const { type, object } of client.watch(configMaps, { ...selection, resourceVersion, timeoutSeconds: 30 })) {
    if (type !== 'BOOKMARK') told.push(`${type} ${object.metadata.name}`);
    if (told.length === 4) break;
  }
  return told;
}

/** Status and reason with which a call is refused. */
async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'not refused';
  } catch (error) {
    if (error instanceof KubeError) return `${error.status} ${error.reason}`;
    throw error;
  }
}

/** Runs one step and keeps what matters of its end. */
export async function answerOf({ call }: Step, client: Client, namespace: string): Promise<Answer> {
  try {
    return { value: await call(client, namespace) };
  } catch (error) {
    if (error instanceof KubeError) return { status: error.status, reason: error.reason };
    throw error;
  }
}
