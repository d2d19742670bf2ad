import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { EnginePort } from '../../../src/preheat/backends/daemonset/engine.js';
import { Engine } from '../../../src/preheat/backends/daemonset/engine.js';
import type { DaemonSet } from '../../../src/preheat/backends/daemonset/manifest.js';
import { pullerManifest, pullerSetName } from '../../../src/preheat/backends/daemonset/manifest.js';
import { templatePrint } from '../../../src/preheat/backends/daemonset/print.js';
import { projectPullerPod, projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import type { Plan } from '../../../src/preheat/planner.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { puller } from './fixtures.js';

const OPTIONS = { namespace: 'harbinger-system', program: 'reg.example.com/puller@sha256:1' };
const manifest = (letter = 'a', nodes = ['n1', 'n2']) => pullerManifest(puller(letter), nodes, OPTIONS);
const stored = (letter = 'a', nodes = ['n1', 'n2']): PullerSet => {
  const object = manifest(letter, nodes);
  return projectPullerSet({ ...object, metadata: { ...object.metadata, uid: `uid-${letter}`, resourceVersion: '1' } });
};
const manifestPrint = templatePrint(manifest().spec.template);
type Spec = Record<string, unknown> & { containers: [Record<string, unknown>, ...unknown[]] };
/** The set as somebody changed it, or as an API server stores it. */
const edited = (change: (spec: Spec, object: DaemonSet) => void): PullerSet => {
  const object = structuredClone(manifest());
  change(object.spec.template.spec as Spec, object);
  return projectPullerSet({ ...object, metadata: { ...object.metadata, uid: 'uid-a' } });
};
const grants = (...wanted: [string, string[]][]): Plan['grants'] =>
  new Map(wanted.map(([l, nodes]) => [puller(l).hash, { puller: puller(l), nodes: new Set(nodes) }]));

describe('the DaemonSet of a puller', () => {
  const spec = manifest().spec.template.spec as Record<string, never> & {
    containers: Record<string, unknown>[];
    volumes: unknown[];
  };
  test('mounts the image by digest and runs nothing of it', () => {
    expect(spec.volumes).toEqual([{ name: 'image', image: { reference: puller().image, pullPolicy: 'IfNotPresent' } }]);
    expect(spec.containers).toHaveLength(1);
    expect(spec.containers[0]).toMatchObject({
      image: OPTIONS.program,
      command: ['/puller', 'hold', '/image'],
      startupProbe: { exec: { command: ['/puller', 'check', '/image'] } },
    });
  });
  test('asks for no resources, and leaves a LimitRange none to fill in: 10m CPU kept a whole-node gang out for good', () =>
    expect(spec.containers[0]).toMatchObject({ resources: { requests: { cpu: '0', memory: '0' } } }));
  test('fits the restricted profile and has no token', () => {
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    });
    expect(spec.containers[0]).toMatchObject({
      securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
    });
  });
  test('tolerates everything and names its nodes one term each, sorted', () => {
    expect(manifest('a', ['n2', 'n1'])).toEqual(manifest('a', ['n1', 'n2']));
    expect(spec).toMatchObject({
      tolerations: [{ operator: 'Exists' }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: ['n1', 'n2'].map((n) => ({
              matchFields: [{ key: 'metadata.name', operator: 'In', values: [n] }],
            })),
          },
        },
      },
    });
  });
  test('is read back as it was written', () => {
    expect(stored()).toMatchObject({
      name: pullerSetName(puller()),
      hash: puller().hash,
      image: puller().image,
      nodes: ['n1', 'n2'],
      program: OPTIONS.program,
      deleting: false,
    });
  });
  test('carries the pull secrets of the configuration, and none where there are none', () => {
    const made = pullerManifest(puller(), ['n1'], { ...OPTIONS, pullSecrets: ['a', 'b'] });
    expect(made.spec.template.spec).toMatchObject({ imagePullSecrets: [{ name: 'a' }, { name: 'b' }] });
    expect(projectPullerSet(made).pullSecrets).toEqual(['a', 'b']);
    expect(spec).not.toHaveProperty('imagePullSecrets');
  });
  test('a runtime class selects the snapshotter', () => {
    const made = pullerManifest(puller('a', { runtimeClassName: 'nydus' }), ['n1'], OPTIONS);
    expect(projectPullerSet(made).runtimeClassName).toBe('nydus');
  });
});

describe('steps', () => {
  const short = (steps: ReturnType<typeof engineSteps>): string[] =>
    steps.map((s) => `${s.do} ${s.do === 'delete' ? s.set.name : s.object.metadata.name}`);
  const name = (letter: string): string => pullerSetName(puller(letter));
  const rows: [string, Plan['grants'], PullerSet[], string[]][] = [
    ['nothing wanted, nothing there', grants(), [], []],
    ['wanted and absent', grants(['a', ['n1']]), [], [`create ${name('a')}`]],
    ['as wanted', grants(['a', ['n2', 'n1']]), [stored()], []],
    ['another node', grants(['a', ['n1', 'n3']]), [stored()], [`update ${name('a')}`]],
    ['a node less', grants(['a', ['n1']]), [stored()], [`update ${name('a')}`]],
    [
      'another puller program',
      grants(['a', ['n1', 'n2']]),
      [edited((s) => (s.containers[0].image = 'old'))],
      [`update ${name('a')}`],
    ],
    ['edited by hand', grants(['a', ['n1', 'n2']]), [{ ...stored(), image: 'evil' }], [`update ${name('a')}`]],
    ['nobody wants it', grants(), [stored()], [`delete ${name('a')}`]],
    ['it goes already', grants(), [{ ...stored(), deleting: true }], []],
    ['wanted again while it goes: made anew when it is gone', grants(['a', ['n1']]), [{ ...stored(), deleting: true }], []],
    [
      'a stranger with our label',
      grants(['a', ['n1', 'n2']]),
      [stored(), { ...stored(), name: 'stranger' }],
      ['update puller', 'delete stranger'],
    ],
  ];
  test.each(rows)('%s', (title, wanted, sets, expected) => {
    const got = short(engineSteps(wanted, sets, OPTIONS));
    if (title.startsWith('a stranger')) expect(got.at(-1)).toBe('delete stranger');
    else expect(got).toEqual(expected);
  });

  test('an edit names the set that it changes, so that one that is gone does not come back by it', () =>
    expect(engineSteps(grants(['a', ['n3']]), [stored()], OPTIONS)).toMatchObject([
      { do: 'update', object: { metadata: { uid: 'uid-a' } } },
    ]));

  test('other pull secrets: the set is changed, or made anew where every pull of it failed, since Pods keep the old ones', () => {
    const secrets = { ...OPTIONS, pullSecrets: ['registry'] };
    const want = grants(['a', ['n1', 'n2']]);
    expect(short(engineSteps(want, [stored()], { ...secrets, idle: () => false }))).toEqual([`update ${name('a')}`]);
    expect(short(engineSteps(want, [stored()], { ...secrets, idle: () => true }))).toEqual([`delete ${name('a')}`]);
    const made = projectPullerSet(pullerManifest(puller(), ['n1', 'n2'], secrets));
    expect(short(engineSteps(want, [made], { ...secrets, idle: () => true }))).toEqual([]);
  });

  const byHand: [string, (spec: Spec, object: DaemonSet) => void][] = [
    ['no tolerations', (s) => delete s['tolerations']],
    ['four cores asked for', (s) => (s.containers[0]['resources'] = { requests: { cpu: '4' } })],
    ['resources of the whole Pod', (s) => (s['resources'] = { requests: { cpu: '4' } })],
    ['a limit', (s) => (s.containers[0]['resources'] = { requests: { cpu: '0' }, limits: { cpu: '1' } })],
    ['a selector of nodes', (s) => (s['nodeSelector'] = { pool: 'x' })],
    ['one more container', (s) => s.containers.push({ name: 'more' })],
    ['a priority', (s) => (s['priorityClassName'] = 'high')],
    ['another label of its Pods', (_, o) => (o.spec.template.metadata.labels['team'] = 'x')],
  ];
  test.each(byHand)('a set edited by hand is put right: %s', (_, change) => {
    const want = grants(['a', ['n1', 'n2']]);
    expect(short(engineSteps(want, [edited(change)], OPTIONS))).toEqual([`update ${name('a')}`]);
  });
  test('what the API server writes into a template by itself is no edit', () => {
    const defaulted = edited((s, o) => {
      Object.assign(s, { dnsPolicy: 'ClusterFirst', restartPolicy: 'Always', schedulerName: 'default-scheduler' });
      Object.assign(s, { serviceAccount: s['serviceAccountName'] });
      Object.assign(s.containers[0], { terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File' });
      Object.assign(s.containers[0]['startupProbe'] as object, { successThreshold: 1 });
      Object.assign(o.spec.template.metadata, { creationTimestamp: null });
    });
    expect(engineSteps(grants(['a', ['n1', 'n2']]), [defaulted], OPTIONS)).toEqual([]);
  });
  test('what comes back on the way after an edit stays, until the set does nothing; made anew it stays for good', () => {
    const set = edited((s) => (s['nodeSelector'] = { pool: 'x' }));
    const want = grants(['a', ['n1', 'n2']]);
    const after = (by: 'create' | 'update', idle: boolean, stored = set.print): string[] =>
      short(engineSteps(want, [set], { ...OPTIONS, altered: () => ({ sent: manifestPrint, stored, by }), idle: () => idle }));
    expect(after('update', false)).toEqual([]);
    expect(after('update', true)).toEqual([`delete ${name('a')}`]);
    expect(after('create', true)).toEqual([]);
    // The twin: somebody has changed it since.
    expect(after('create', true, 'other')).toEqual([`update ${name('a')}`]);
  });
  test('a set of an older version, whose selector lacks the shard, is changed with the selector that it has', () => {
    const old = edited((_, { spec }) => delete spec.selector.matchLabels['harbinger.dev/puller-shard']);
    const [step] = engineSteps(grants(['a', ['n1', 'n3']]), [old], OPTIONS);
    expect(step).toMatchObject({ do: 'update', object: { spec: { selector: { matchLabels: old.selector } } } });
    expect(Object.keys(old.selector)).toEqual(['harbinger.dev/puller']);
  });
  test('one whose selector does not pick our Pods, which no edit can change, is made anew', () => {
    const wrong = edited((_, { spec }) => (spec.selector.matchLabels = { app: 'x' }));
    expect(short(engineSteps(grants(['a', ['n1', 'n2']]), [wrong], OPTIONS))).toEqual([`delete ${name('a')}`]);
  });

  test('property: carrying out the steps gives exactly what is wanted, and then there is nothing left to do', () => {
    const some = fc.dictionary(
      fc.constantFrom('a', 'b', 'c'),
      fc.uniqueArray(fc.constantFrom('n1', 'n2', 'n3'), { minLength: 1 }),
    );
    fc.assert(
      fc.property(some, some, (before, wanted) => {
        const sets = new Map(Object.entries(before).map(([l, n]) => [pullerSetName(puller(l)), stored(l, n)]));
        const want = grants(...Object.entries(wanted));
        for (const step of engineSteps(want, [...sets.values()], OPTIONS)) {
          if (step.do === 'delete') sets.delete(step.set.name);
          else sets.set(step.object.metadata.name, projectPullerSet(step.object));
        }
        expect(engineSteps(want, [...sets.values()], OPTIONS)).toEqual([]);
      }),
    );
  });
});

describe('the engine', () => {
  interface Rig {
    engine: Engine;
    /** `what set` in the order in which they were asked for. */
    calls: string[];
    failed: string[];
    /** What an attempt at a set comes to; a success unless it is here. */
    errors: Map<string, Error>;
    /** What the API server keeps of whatever is written; the print of what was sent where there is none. */
    stored: { image: string; print?: string };
  }
  const rig = (fallsBack = false): Rig => {
    const [calls, failed, errors] = [[] as string[], [] as string[], new Map<string, Error>()];
    const kept: Rig['stored'] = { image: puller().image };
    const call = (what: string, set: string, object: unknown = {}): Promise<unknown> => {
      calls.push(`${what} ${set}`);
      const error = errors.get(set);
      return error === undefined ? Promise.resolve(object) : Promise.reject(error);
    };
    const port: EnginePort = {
      create: (object) => call('create', object.metadata.name, object),
      update: (object) => call('update', object.metadata.name, object),
      delete: ({ name }) => call('delete', name),
      stored: (object) => ({ print: templatePrint((object as DaemonSet).spec.template), ...kept }),
      altered: (set) => failed.push(`altered ${set}`),
      fallsBack: () => fallsBack,
      dropped: (set) => failed.push(`dropped ${set}`),
      refusal: (error) => ((error as Error).message.startsWith('422') ? (error as Error).message : undefined),
      failed: ({ set, retryInMs }) => failed.push(`${set} ${retryInMs}`),
    };
    return { engine: new Engine(port), calls, failed, errors, stored: kept };
  };
  const [A, B] = [pullerSetName(puller('a')), pullerSetName(puller('b'))];
  const create = engineSteps(grants(['a', ['n1']]), [], OPTIONS);
  const update = engineSteps(grants(['a', ['n1', 'n3']]), [stored()], OPTIONS);
  const remove = engineSteps(grants(), [stored('b')], OPTIONS);

  test('edits one set no more than once a second, and says when the rest is due', async () => {
    const { engine, calls } = rig();
    expect(await engine.run(create, 1_000)).toBeUndefined();
    expect(await engine.run(update, 1_400)).toBe(604);
    expect(await engine.run(update, 2_004)).toBeUndefined();
    expect(calls).toEqual([`create ${A}`, `update ${A}`]);
  });
  test('is not blocked by a clock that was set back', async () => {
    const { engine, calls } = rig();
    await engine.run(create, 1e12);
    expect(await engine.run(update, 1_000)).toBeUndefined();
    expect(calls).toEqual([`create ${A}`, `update ${A}`]);
  });

  test('a refused set does not keep the others from being made, and is told until its next attempt', async () => {
    const { engine, calls, failed, errors } = rig();
    errors.set(A, new Error('422 Not_Valid'));
    expect(await engine.run([...create, ...remove], 1_000)).toBe(5_000);
    expect(calls).toEqual([`create ${A}`, `delete ${B}`]);
    expect(failed).toEqual([`harbinger-system/${A} 5000`]);
    expect([...engine.refused(1_000)]).toEqual([[puller().hash, '422 Not_Valid']]);
    expect([...engine.refused(5_999)]).toHaveLength(1);
    expect([...engine.refused(6_000)]).toEqual([]);
  });
  test('it is tried again after 5 s, 10 s and so on up to 5 min, and forgotten once it is taken', async () => {
    const { engine, calls, failed, errors } = rig();
    errors.set(A, new Error('422'));
    let now = 0;
    for (let i = 0; i < 9; i++) now += (await engine.run(create, now)) ?? 0;
    expect(failed.map((f) => Number(f.split(' ')[1]) / 1000)).toEqual([5, 10, 20, 40, 80, 160, 300, 300, 300]);
    expect(await engine.run(create, now - 1)).toBe(1);
    errors.clear();
    expect(await engine.run(create, now)).toBeUndefined();
    expect(engine.refused(now).size).toBe(0);
    expect(calls).toHaveLength(10);
  });
  test('one that nobody wants any more is forgotten when it is due', async () => {
    const { engine, errors } = rig();
    errors.set(A, new Error('422'));
    await engine.run(create, 0);
    expect(await engine.run([], 1_000)).toBe(4_000);
    expect(await engine.run([], 5_000)).toBeUndefined();
  });
  test('a failed edit that is due before the set may be edited again waits for that, and asks for no plan before', async () => {
    const { engine, calls, errors } = rig();
    const wide = engineSteps(grants(['a', Array.from({ length: 500 }, (_, i) => `n${i}`)]), [stored()], OPTIONS);
    errors.set(A, new Error('409'));
    expect(await engine.run(wide, 0)).toBe(3_000);
    for (const now of [1_000, 1_500, 2_999]) expect(await engine.run(wide, now)).toBe(3_000 - now);
    expect(calls).toHaveLength(1);
    errors.clear();
    expect(await engine.run(wide, 3_000)).toBeUndefined();
  });
  test('remembers no edit for longer than it holds up the next one', async () => {
    const { engine } = rig();
    await engine.run(create, 0);
    expect(engine.remembered).toBe(1);
    await engine.run([], 1_003);
    expect(engine.remembered).toBe(1);
    await engine.run([], 1_004);
    expect(engine.remembered).toBe(0);
  });
  test('notes what became of a template on its way, says so once, and forgets it once it is kept', async () => {
    const { engine, failed, stored: kept } = rig();
    const set = { namespace: 'harbinger-system', name: A };
    kept.print = 'other';
    await engine.run(create, 0);
    await engine.run(update, 10_000);
    expect(engine.altered(set)).toEqual({ sent: manifestPrint, stored: 'other', by: 'update' });
    expect(failed).toEqual([`altered harbinger-system/${A}`]);
    delete kept.print;
    await engine.run(update, 20_000);
    expect(engine.altered(set)).toBeUndefined();
  });
  test('a failure that may pass is no refusal; it is tried again sooner, or when the server asks for it', async () => {
    const { engine, errors } = rig();
    errors.set(A, new Error('500'));
    expect(await engine.run(create, 0)).toBe(1_000);
    expect(engine.refused(0).size).toBe(0);
    errors.set(A, Object.assign(new Error('429'), { retryAfterMs: 30_000 }));
    expect(await engine.run(create, 1_000)).toBe(30_000);
  });
  test('a pause does not outlast a clock that was set back', async () => {
    const { engine, calls, errors } = rig();
    errors.set(A, new Error('422'));
    await engine.run(create, 1e12);
    await engine.run(create, 1_000);
    expect(calls).toHaveLength(2);
  });
  test('with a method to fall back to it is no problem: the next plan is made at once, and it is said once', async () => {
    const { engine, failed, stored: kept } = rig(true);
    kept.image = '';
    expect(await engine.run(create, 0)).toBe(0);
    expect(engine).toMatchObject({ dropsImageVolumes: true, problem: undefined });
    expect(engine.refused(0).size).toBe(0);
    kept.image = puller().image;
    expect(await engine.run(create, 1_000)).toBeUndefined();
    expect(engine.dropsImageVolumes).toBe(true);
    expect(failed).toEqual([`dropped harbinger-system/${A}`]);
  });
  test('an API server that drops image volumes is named, and once it keeps them all is well', async () => {
    const { engine, stored: kept } = rig();
    kept.image = '';
    await engine.run(create, 0);
    expect(engine.problem).toContain('ImageVolume');
    expect(engine.refused(0).get(puller().hash)).toContain('does not keep image volumes');
    kept.image = puller().image;
    await engine.run(create, 5_000);
    expect(engine.problem).toBeUndefined();
    expect(engine.refused(5_000).size).toBe(0);
  });
});

describe('a puller Pod', () => {
  test('that is not bound names its node in the affinity that the DaemonSet controller wrote', () => {
    const affinity = {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n7'] }] }],
        },
      },
    };
    const raw = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { affinity, schedulingGates: [{ name: 'g' }] },
      status: { conditions: [{ type: 'PodScheduled', status: 'False', message: 'gated' }] },
    };
    // A gate is told as a gate, not as a lack of room.
    expect(projectPullerPod(raw)).toMatchObject({ node: 'n7', gates: ['g'], phase: 'Pending' });
    expect(projectPullerPod(raw)).not.toHaveProperty('unschedulable');
  });
  test.each([[{}], [{ spec: null, status: null }], [{ status: { containerStatuses: [null, 'x'] }, spec: { volumes: [{}] } }]])(
    'malformed %j proves nothing',
    (parts) => {
      const pod = projectPullerPod({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, ...parts });
      expect(pod.image).toBeUndefined();
      expect(pod.container).toBeUndefined();
    },
  );
});
