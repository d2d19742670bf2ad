import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KubeObject } from '../../../src/api/object.js';
import { podRequests } from '../../../src/api/pod-requests.js';
import { decideGang } from '../../../src/controller/decide-gang.js';
import { PodUsages } from '../../../src/controller/pod-usage.js';
import type { Candidates } from '../../../src/placement/candidates.js';
import { candidates } from '../../../src/placement/candidates.js';
import { runtimeClassFacts } from '../../../src/placement/capability.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { nodeFacts } from '../../../src/placement/node-facts.js';
import { NodeUsage } from '../../../src/placement/usage.js';
import { gang } from '../../unit/controller/fixtures.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';
import type { RandomNode } from './arbitraries.js';
import { nodeArbitrary, OURS, podArbitrary, RUNTIME_CLASSES, UNMODELLED } from './arbitraries.js';
import type { Verdict } from './scheduler.js';
import { ask } from './scheduler.js';

type Spec = Record<string, unknown>;

const NODES = 14;
const PODS = 45;
const CROWDED = 15;
const SEED = Number(process.env['PLACEMENT_SEED'] ?? 20_260_101);
const names = Array.from({ length: NODES }, (_, i) => `node-${i + 1}`);
const GATE = '--feature-gates=TaintTolerationComparisonOperators=true';

/** What Harbinger makes of a Pod that waits in a queue as a template. */
function ours(spec: Spec, nodes: readonly NodeFacts[], change: { withoutClass?: boolean; requests?: Spec } = {}): Candidates {
  const template = { metadata: {}, spec };
  const view = gang().gang;
  const podSets = [{ name: 'main', count: 1, template }];
  const decision = decideGang({
    gang: { ...view, podSets },
    optIn: { optedIn: true, problems: [] },
    queueFlavors: [],
    flavors: new Map(),
  });
  if (decision.do !== 'apply') throw new Error(decision.why);
  const [target] = decision.object.spec.targets;
  const raw = RUNTIME_CLASSES.find((c) => c.metadata.name === spec['runtimeClassName'] && change.withoutClass !== true);
  const runtimeClass = raw === undefined ? undefined : runtimeClassFacts(raw as KubeObject & Spec);
  const requests = podRequests({ ...(change.requests ?? spec), overhead: runtimeClass?.overhead });
  return candidates(target ?? fail(), nodes, { requests, runtimeClass });
}

function fail(): never {
  throw new Error('the gang has no target');
}

interface Observation {
  spec: Spec;
  verdict: Verdict;
}

/** Nodes about which Harbinger and the scheduler disagree. */
function disagreements({ verdict }: Observation, found: Candidates, judged: readonly string[]): string[] {
  const chosen = new Set(found.nodes.map((n) => n.name));
  return judged.filter((name) => verdict.accepted.has(name) !== chosen.has(name));
}

describe(`against the real scheduler, ${NODES} random nodes, seed ${SEED}`, () => {
  let cluster: Cluster;
  let random: RandomNode[];
  /** As the API server has them once the node controller has done its part. */
  let nodes: NodeFacts[];
  /** Nodes that Harbinger does not keep out by rules of its own. */
  let judged: string[];
  let observations: Observation[];

  beforeAll(async () => {
    // Nodes without kubelets: nobody says that they live, and nobody is to give them up.
    const manager = ['--node-monitor-grace-period=30m', '--kube-api-qps=500', '--kube-api-burst=1000'];
    const scheduler = [GATE, '--kube-api-qps=2000', '--kube-api-burst=4000'];
    const flags = { 'kube-apiserver': [GATE], 'kube-controller-manager': manager, 'kube-scheduler': scheduler };
    cluster = await Cluster.start({ name: 'it-placement', registry: false, flags, say: () => undefined });
    const { client } = cluster;
    random = names.map((name, i) => fc.sample(nodeArbitrary(name, OURS[i]), { seed: SEED + i, numRuns: 1 })[0] ?? fail());
    await client.apply([...RUNTIME_CLASSES, namespace('trial'), namespace('residents')]);
    for (const node of random) await createNode(node);
    const raw = await until('the node controller to have set its taints', async () => {
      const all = await client.list('v1/Node');
      return all.every(isSettled) ? all : notYet(all.filter((n) => !isSettled(n)).map((n) => n['spec']));
    });
    for (const ns of ['trial', 'residents'])
      await until(`a service account in ${ns}`, () => client.find('v1/ServiceAccount', `${ns}/default`));
    nodes = raw.map((n) => nodeFacts(n as unknown as KubeObject));
    judged = random.filter((n) => !n.ours).map((n) => n.name);
    observations = [];
    for (const spec of fc.sample(podArbitrary(names), { seed: SEED, numRuns: PODS }))
      observations.push({ spec, verdict: await ask(cluster, spec, names) });
  }, 240_000);
  afterAll(async () => cluster?.stop());

  async function createNode({ name, object: { status, ...object } }: RandomNode): Promise<void> {
    const now = new Date().toISOString();
    const ready = { type: 'Ready', status: 'True', reason: 'Paper', lastHeartbeatTime: now, lastTransitionTime: now };
    await cluster.client.create(object);
    const full = { ...(status as object), conditions: [ready], nodeInfo: { operatingSystem: 'linux', architecture: 'amd64' } };
    await cluster.client.patch('v1/Node', name, { status: full }, { subresource: 'status' });
  }

  const judgedPods = (): Observation[] => observations.filter((o) => o.verdict.refused === undefined);

  test('a node is a candidate if and only if the scheduler takes the Pod there', () => {
    const wrong = judgedPods().flatMap((o) =>
      disagreements(o, ours(o.spec, nodes), judged).map((name) => ({
        node: random.find((n) => n.name === name)?.object,
        pod: o.spec,
        scheduler: o.verdict.accepted.has(name),
      })),
    );
    expect(wrong.slice(0, 2)).toEqual([]);
    const taken = judgedPods().reduce((sum, o) => sum + judged.filter((n) => o.verdict.accepted.has(n)).length, 0);
    const asked = judgedPods().length * judged.length;
    // Both answers are common, or agreeing would prove little.
    expect(taken / asked).toBeGreaterThan(0.04);
    expect(taken / asked).toBeLessThan(0.9);
    expect(judgedPods().length).toBeGreaterThan(PODS / 2);
  });

  test('a Pod that may choose is placed if and only if there is a candidate or a node that Harbinger keeps out', () => {
    for (const o of judgedPods()) {
      const found = ours(o.spec, nodes).nodes.map((n) => n.name);
      const { chosen, accepted } = o.verdict;
      expect(chosen !== undefined).toBe(accepted.size > 0);
      if (chosen !== undefined && judged.includes(chosen)) expect(found).toContain(chosen);
      if (found.length > 0) expect(chosen).toBeDefined();
    }
  });

  test('a Pod that the API server refuses for its RuntimeClass has no candidates', () => {
    const refused = observations.filter((o) => o.verdict.refused?.includes('RuntimeClass'));
    for (const o of refused) expect(ours(o.spec, nodes).nodes).toEqual([]);
  });

  test('nodes that Harbinger keeps out by rules of its own are never candidates', () => {
    const own = random.filter((n) => n.ours).map((n) => n.name);
    expect(own).not.toEqual([]);
    for (const { spec } of observations) expect(ours(spec, nodes).nodes.filter((n) => own.includes(n.name))).toEqual([]);
  });

  type Broken = (o: Observation) => Candidates;
  const broken: [string, Broken][] = [
    [
      'taints of NoExecute',
      (o) =>
        ours(
          o.spec,
          nodes.map((n) => ({ ...n, taints: n.taints.filter((t) => t.effect !== 'NoExecute') })),
        ),
    ],
    [
      'cordons',
      (o) =>
        ours(
          o.spec,
          nodes.map((n) => ({ ...n, unschedulable: false })),
        ),
    ],
    [
      'how many Pods a node takes',
      (o) =>
        ours(
          o.spec,
          nodes.map((n) => ({ ...n, allocatable: { ...n.allocatable, pods: 110 } })),
        ),
    ],
    ['init containers', (o) => ours(o.spec, nodes, { requests: { ...o.spec, initContainers: [] } })],
    ['resources of the Pod as a whole', (o) => ours(o.spec, nodes, { requests: { ...o.spec, resources: {} } })],
    ['the RuntimeClass', (o) => ours(o.spec, nodes, { withoutClass: true })],
    ['required affinity', (o) => ours({ ...o.spec, affinity: {} }, nodes)],
    ['tolerations', (o) => ours({ ...o.spec, tolerations: [] }, nodes)],
  ];
  test.each(broken)('filters that forgot %s would be caught', (_title, judge) => {
    expect(judgedPods().filter((o) => disagreements(o, judge(o), judged).length > 0)).not.toEqual([]);
  });

  describe('with Pods on the nodes', () => {
    const usage = new NodeUsage();

    beforeAll(async () => {
      const { project } = new PodUsages();
      const shapes = fc.sample(podArbitrary(names), { seed: SEED + 1000, numRuns: NODES * 2 });
      for (const [i, { containers }] of shapes.entries()) {
        const nodeName = names[i % NODES] ?? '';
        const port = i % 3 === 0 ? { ports: [{ containerPort: 8080, hostPort: 8080 }] } : {};
        const [main] = containers as object[];
        const pod = await cluster.client.create({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: `resident-${i}`, namespace: 'residents', labels: i % 2 === 0 ? { app: 'resident' } : {} },
          spec: { nodeName, tolerations: [{ operator: 'Exists' }], containers: [{ ...main, ...port }] },
        });
        usage.note(project(pod), undefined);
      }
    }, 60_000);

    const freeNow = (spec: Spec): Set<string> => {
      const requests = podRequests({ ...spec, overhead: overheadOf(spec) });
      return new Set(
        ours(spec, nodes)
          .nodes.filter((n) => usage.roomFor(n, requests).class === 0)
          .map((n) => n.name),
      );
    };
    const overheadOf = (spec: Spec): unknown => {
      const raw = RUNTIME_CLASSES.find((c) => c.metadata.name === spec['runtimeClassName']);
      return (raw?.['overhead'] as { podFixed?: unknown } | undefined)?.podFixed;
    };

    test('a candidate has room now if and only if the scheduler takes the Pod there now', async () => {
      const full = { before: 0, now: 0 };
      for (const spec of fc.sample(podArbitrary(names), { seed: SEED + 2000, numRuns: CROWDED })) {
        const { refused, accepted } = await ask(cluster, spec, names);
        if (refused !== undefined) continue;
        const free = freeNow(spec);
        expect({ spec, free: [...free].sort() }).toEqual({ spec, free: [...accepted].filter((n) => judged.includes(n)).sort() });
        full.now += free.size;
        full.before += ours(spec, nodes).nodes.length;
      }
      // The Pods there do keep others away.
      expect(full.now).toBeLessThan(full.before);
      expect(full.now).toBeGreaterThan(0);
    }, 120_000);

    test('Pods with demands that are not modelled go to none but candidates', async () => {
      const fewer = new Set<string>();
      for (const [title, add] of Object.entries(UNMODELLED))
        for (const plain of fc.sample(podArbitrary(names), { seed: SEED + 3000, numRuns: 3 })) {
          const { affinity: _affinity, ...rest } = plain;
          const spec = add({ ...rest, nodeSelector: {}, tolerations: [{ operator: 'Exists' }] });
          const { refused, accepted } = await ask(cluster, spec, names);
          if (refused !== undefined) continue;
          const found = ours(spec, nodes).nodes.map((n) => n.name);
          const taken = [...accepted].filter((n) => judged.includes(n));
          expect({ title, outside: taken.filter((n) => !found.includes(n)) }).toEqual({ title, outside: [] });
          if (taken.length < freeNow(spec).size) fewer.add(title);
        }
      // Some of these demands do narrow the choice, or nothing was tried.
      expect([...fewer]).not.toEqual([]);
    }, 120_000);
  });
});

const namespace = (name: string): Draft => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });

/** The node controller turns conditions and cordons into taints, one node after the other. */
function isSettled(node: Raw): boolean {
  const taints = (node['spec'].taints ?? []) as { key: string }[];
  const has = (key: string): boolean => taints.some((t) => t.key === `node.kubernetes.io/${key}`);
  return !has('not-ready') && has('unschedulable') === (node['spec'].unschedulable === true);
}
