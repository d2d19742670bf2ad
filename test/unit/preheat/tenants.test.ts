import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ManifestOptions } from '../../../src/preheat/backends/daemonset/manifest.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerPod, projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import { SHARD_NODES, shardsOf } from '../../../src/preheat/backends/daemonset/shards.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import { isOurs, pullerOfSet } from '../../../src/preheat/ownership.js';
import type { Plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { classifyRejection, withWayOut } from '../../../src/preheat/rejections.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { image, puller } from './fixtures.js';

const OWN = 'harbinger-system';
const OPTIONS: ManifestOptions = { namespace: OWN, program: 'reg.example.com/puller@sha256:1' };
const TENANT = { namespace: 'team', secrets: ['registry'] };
const OWNER = { apiVersion: 'harbinger.dev/v1alpha1', kind: 'ImagePrewarm', name: 'job', uid: 'owner-1' };
const theirs = puller('a', { tenant: TENANT });

type Template = Record<string, unknown> & { containers: Record<string, unknown>[]; volumes: unknown[] };
interface Edit {
  namespace?: string;
  name?: string;
  change?: (spec: Template) => void;
}

/** What the cache has of a DaemonSet as we make it, or as somebody changed it. */
function stored(
  of: Puller,
  nodes: string[],
  { namespace, name, change }: Edit = {},
  more: Parameters<typeof pullerManifest>[3] = {},
): PullerSet {
  const object = structuredClone(pullerManifest(of, nodes, OPTIONS, more));
  change?.(object.spec.template.spec as Template);
  const { metadata } = object;
  return projectPullerSet({
    ...object,
    metadata: {
      ...metadata,
      uid: `uid-${metadata.name}`,
      namespace: namespace ?? metadata.namespace ?? '',
      name: name ?? metadata.name,
    },
  });
}
const grants = (...wanted: [Puller, string[]][]): Plan['grants'] =>
  new Map(wanted.map(([of, nodes]) => [of.hash, { puller: of, nodes: new Set(nodes) }]));

describe('the DaemonSet of a tenant', () => {
  const made = pullerManifest(theirs, ['n1'], { ...OPTIONS, pullSecrets: ['of-harbinger'] }, { owners: [OWNER] });
  test('stands in its namespace, has the names of its secrets and not those of Harbinger, and goes with its owners', () => {
    expect(made.metadata).toMatchObject({ namespace: 'team', ownerReferences: [OWNER] });
    expect(made.spec.template.spec).toMatchObject({ serviceAccountName: 'default', imagePullSecrets: [{ name: 'registry' }] });
  });
  test('names the account only where no secret is named, whose secrets the API server adds then', () => {
    const { spec } = pullerManifest(
      puller('a', { tenant: { namespace: 'team', secrets: [], serviceAccountName: 'trainer' } }),
      [],
      OPTIONS,
    ).spec.template;
    expect(spec).toMatchObject({ serviceAccountName: 'trainer', automountServiceAccountToken: false });
    expect(spec).not.toHaveProperty('imagePullSecrets');
  });
  test('is read back as what it warms', () => {
    expect(pullerOfSet(stored(theirs, ['n1']), OWN)).toEqual(theirs);
    expect(stored(theirs, ['n1'], {}, { owners: [OWNER] }).owners).toEqual(['owner-1']);
  });
});

describe('whether a DaemonSet with our label is ours', () => {
  const rows: [string, PullerSet, boolean][] = [
    ['as we make it for a tenant', stored(theirs, ['n1']), true],
    ['anything in our own namespace', stored(puller(), ['n1'], { name: 'x' }), true],
    ['the central one, copied to the namespace of a tenant', stored(puller(), ['n1'], { namespace: 'team' }), false],
    ['that of another tenant, copied', stored(theirs, ['n1'], { namespace: 'rival' }), false],
    ['under another name', stored(theirs, ['n1'], { name: 'mine' }), false],
    [
      'with another image',
      stored(theirs, ['n1'], { change: (s) => (s.volumes = [{ name: 'image', image: { reference: image('b') } }]) }),
      false,
    ],
    ['with other secrets', stored(theirs, ['n1'], { change: (s) => (s['imagePullSecrets'] = [{ name: 'other' }]) }), false],
    ['with one container more', stored(theirs, ['n1'], { change: (s) => s.containers.push({ name: 'miner' }) }), false],
    [
      'with a volume of the host',
      stored(theirs, ['n1'], { change: (s) => s.volumes.push({ name: 'host', hostPath: { path: '/' } }) }),
      false,
    ],
    [
      'with a secret as a volume',
      stored(theirs, ['n1'], { change: (s) => s.volumes.push({ name: 'program', secret: { secretName: 'x' } }) }),
      false,
    ],
    ['on the network of the host', stored(theirs, ['n1'], { change: (s) => (s['hostNetwork'] = true) }), false],
    ['with a token', stored(theirs, ['n1'], { change: (s) => (s['automountServiceAccountToken'] = true) }), false],
    [
      'with another command',
      stored(theirs, ['n1'], { change: (s) => ((s.containers[0] ?? {})['command'] = ['/bin/sh']) }),
      false,
    ],
    [
      'with an environment',
      stored(theirs, ['n1'], { change: (s) => ((s.containers[0] ?? {})['env'] = [{ name: 'A', value: 'b' }]) }),
      false,
    ],
  ];
  test.each(rows)('%s: %#', (_, set, expected) => expect(isOurs(set, OWN)).toBe(expected));

  test('what is not ours is neither changed nor deleted, wanted or not', () => {
    const strangers = rows.filter(([, , ours]) => !ours).map(([, set]) => set);
    expect(strangers.length).toBeGreaterThan(8);
    expect(engineSteps(grants(), strangers, OPTIONS)).toEqual([]);
    const steps = engineSteps(grants([theirs, ['n1']]), strangers, OPTIONS);
    expect(steps.map((s) => s.do)).toEqual(['create']);
  });
});

describe('steps for a tenant', () => {
  const owners = new Map([[theirs.hash, [OWNER]]]);
  test('a set is made with its owners, and a change names its UID, so that no other of that name is changed', () => {
    const [create] = engineSteps(grants([theirs, ['n1']]), [], { ...OPTIONS, owners });
    expect(create).toMatchObject({ do: 'create', object: { metadata: { namespace: 'team', ownerReferences: [OWNER] } } });
    const [update] = engineSteps(grants([theirs, ['n1', 'n2']]), [stored(theirs, ['n1'])], { ...OPTIONS, owners });
    expect(update).toMatchObject({ do: 'update', object: { metadata: { uid: `uid-puller-${theirs.hash}` } } });
  });
  test('one more owner is added; one too many is left to garbage collection', () => {
    const set = stored(theirs, ['n1'], {}, { owners: [OWNER] });
    expect(engineSteps(grants([theirs, ['n1']]), [set], { ...OPTIONS, owners: new Map() })).toEqual([]);
    const two = new Map([[theirs.hash, [OWNER, { ...OWNER, name: 'second', uid: 'owner-2' }]]]);
    expect(engineSteps(grants([theirs, ['n1']]), [set], { ...OPTIONS, owners: two })).toMatchObject([{ do: 'update' }]);
  });
  test('what nobody wants is deleted in its namespace', () => {
    expect(engineSteps(grants(), [stored(theirs, ['n1'])], OPTIONS)).toMatchObject([
      { do: 'delete', set: { namespace: 'team', name: `puller-${theirs.hash}` } },
    ]);
  });
});

describe('without image volumes', () => {
  const options: ManifestOptions = { ...OPTIONS, method: 'Container' };
  const made = pullerManifest(puller(), ['n1'], options);
  const spec = made.spec.template.spec as Template & { initContainers: Record<string, unknown>[] };
  const pod = (status: Record<string, unknown> = {}) =>
    projectPullerPod({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: OWN }, ...{ spec, status } });

  test('the image is a container in which our program runs, with nothing of its own', () => {
    expect(spec.initContainers).toMatchObject([{ image: OPTIONS.program, command: ['/puller', 'copy', '/.harbinger/puller'] }]);
    expect(spec.containers).toMatchObject([{ image: image(), command: ['/.harbinger/puller', 'wait'], workingDir: '/' }]);
    expect(projectPullerSet(made)).toMatchObject({
      method: 'Container',
      image: image(),
      program: OPTIONS.program,
      harmless: true,
    });
  });
  test('the image of its Pods is that of the container', () => expect(pod().image).toBe(image()));
  test('a puller program that cannot be pulled is what is told, not that the container waits for it', () => {
    const waits = { name: 'image', state: { waiting: { reason: 'PodInitializing' } } };
    const init = { name: 'puller', state: { waiting: { reason: 'ErrImagePull', message: 'not found' } } };
    expect(pod({ containerStatuses: [waits], initContainerStatuses: [init] }).container?.waiting).toEqual({
      reason: 'ErrImagePull',
      message: 'not found',
    });
  });
  test('a set that was stored without its image volume is made anew by the other method, at once', () => {
    const dropped = stored(puller(), ['n1'], { change: (s) => (s.volumes = [{ name: 'image', emptyDir: {} }]) });
    expect(dropped).toMatchObject({ image: '', method: 'ImageVolume' });
    expect(engineSteps(grants([puller(), ['n1']]), [dropped], options)).toMatchObject([{ do: 'delete' }]);
    expect(engineSteps(grants([puller(), ['n1']]), [], options)).toMatchObject([{ do: 'create', image: image() }]);
  });
  test('with Auto a set keeps the method that it has its image by, also where the controller has not learnt yet which is the one', () => {
    const set = projectPullerSet({ ...made, metadata: { ...made.metadata, uid: 'u' } });
    const auto = { ...OPTIONS, keepMethod: true };
    expect(engineSteps(grants([puller(), ['n1']]), [set], auto)).toEqual([]);
    const [grown] = engineSteps(grants([puller(), ['n1', 'n2']]), [set], auto);
    expect(grown).toMatchObject({ do: 'update', object: { spec: { template: { spec: { initContainers: [{}] } } } } });
    // The twin: who names a method gets it.
    expect(engineSteps(grants([puller(), ['n1']]), [set], OPTIONS)).toMatchObject([{ do: 'update' }]);
  });
  test('one whose pulls run is only changed: its Pods stay', () => {
    const set = stored(puller(), ['n1']);
    expect(engineSteps(grants([puller(), ['n1']]), [set], { ...options, idle: () => false })).toMatchObject([{ do: 'update' }]);
  });
});

describe('shards', () => {
  const names = (n: number, from = 0): string[] => Array.from({ length: n }, (_, i) => `n${String(from + i).padStart(5, '0')}`);
  const deal = (nodes: string[], sets: PullerSet[]) => shardsOf(new Set(nodes), sets).map((s) => [s.index, s.nodes.size]);

  test('hold 500 nodes each', () => {
    expect(deal(names(500), [])).toEqual([[0, 500]]);
    expect(deal(names(1201), [])).toEqual([
      [0, 500],
      [1, 500],
      [2, 201],
    ]);
  });
  test('nodes stay where they are when others go and come', () => {
    const [first, second] = [stored(puller(), names(500)), stored(puller(), names(500, 500), {}, { shard: 1 })];
    const wanted = [...names(100), ...names(500, 500), ...names(450, 5000)];
    const shards = shardsOf(new Set(wanted), [first, second]);
    expect(shards.map((s) => s.nodes.size)).toEqual([500, 500, 50]);
    for (const node of names(500, 500)) expect(shards[1]?.nodes.has(node)).toBe(true);
  });
  test('one without nodes is deleted, and the others keep their names', () => {
    const sets = [stored(puller(), names(500)), stored(puller(), names(10, 500), {}, { shard: 1 })];
    const steps = engineSteps(grants([puller(), names(10, 500)]), sets, OPTIONS);
    expect(steps).toMatchObject([{ do: 'delete', set: { name: `puller-${puller().hash}` } }]);
  });
  test('property: every node is in exactly one, none has more than its share, and dealing again changes nothing', () => {
    const some = fc.uniqueArray(fc.nat(1500), { maxLength: 1300 });
    fc.assert(
      fc.property(some, some, (before, wanted) => {
        const sets = (nodes: number[], old: PullerSet[]): PullerSet[] =>
          shardsOf(new Set(nodes.map(String)), old).map((s) => stored(puller(), [...s.nodes], {}, { shard: s.index }));
        const after = sets(wanted, sets(before, []));
        expect(after.flatMap((s) => s.nodes).sort()).toEqual(wanted.map(String).sort());
        expect(Math.max(0, ...after.map((s) => s.nodes.length))).toBeLessThanOrEqual(SHARD_NODES);
        expect(sets(wanted, after).map((s) => s.nodes)).toEqual(after.map((s) => s.nodes));
      }),
      { numRuns: 20 },
    );
  });
});

describe('why no Pods come', () => {
  // Words of the API server 1.36, as the DaemonSet controller repeats them.
  const rows: [string, string, RegExp][] = [
    [
      'FailedCreate: Error creating: pods "puller-x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=0, limited: pods=0',
      'QuotaExceeded',
      /raise the quota/,
    ],
    [
      'FailedCreate: Error creating: pods "p" is forbidden: failed quota: all: must specify limits.cpu for: puller',
      'QuotaExceeded',
      /default limits/,
    ],
    [
      'FailedCreate: Error creating: pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 0',
      'Rejected',
      /LimitRange/,
    ],
    [
      'FailedCreate: Error creating: pods "p" is forbidden: violates PodSecurity "restricted:latest": seccompProfile',
      'Rejected',
      /mutating webhooks/,
    ],
    [
      'FailedCreate: Error creating: pods "p" is forbidden: error looking up service account team/x: serviceaccount "x" not found',
      'Rejected',
      /service account/,
    ],
    [
      'FailedCreate: Error creating: pods "p" is forbidden: pod rejected: RuntimeClass "kata" not found',
      'Rejected',
      /RuntimeClass/,
    ],
    [
      'FailedCreate: Error creating: Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": connect: connection refused',
      'NoPod',
      /tries again/,
    ],
    ['FailedCreate: something new', 'Rejected', /new$/],
  ];
  test.each(rows)('%s', (words, reason, way) => {
    expect(classifyRejection(words)).toBe(reason);
    expect(withWayOut(words)).toMatch(way);
  });
});
