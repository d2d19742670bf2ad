import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KubeObject } from '../../../src/api/object.js';
import { podRequests } from '../../../src/api/pod-requests.js';
import { PodUsages } from '../../../src/controller/nodes/pod-usage.js';
import type { Candidates } from '../../../src/placement/candidates.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { nodeFacts } from '../../../src/placement/node-facts.js';
import { NodeUsage } from '../../../src/placement/usage.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';
import type { RandomNode } from './arbitraries.js';
import { nodeArbitrary, OURS, podArbitrary, RUNTIME_CLASSES, UNMODELLED } from './arbitraries.js';
import type { Spec } from './judge.js';
import { BROKEN, classOf, judge, revealing, telling } from './judge.js';
import type { Verdict } from './scheduler.js';
import { ask } from './scheduler.js';

const NODES = 14;
/** Pods from which those that the scheduler is asked about are chosen: asking costs a second, judging nothing. */
const SAMPLE = 400;
/** As they come; then those that some nodes can take and some cannot; then for each thing that could be forgotten. */
const PODS = { any: 8, telling: 6, revealing: 2 };
const CROWDED = 8;
const SEED = Number(process.env['PLACEMENT_SEED'] ?? 20_260_101);
const names = Array.from({ length: NODES }, (_, i) => `node-${i + 1}`);
const GATE = '--feature-gates=TaintTolerationComparisonOperators=true';

/** Random nodes among which each kind of obstacle is met. */
function someNodes(): RandomNode[] {
  const all = fc.tuple(...names.map((name, i) => nodeArbitrary(name, OURS[i]))).filter((nodes) => {
    const facts = nodes.filter((n) => !n.ours).map((n) => nodeFacts(n.object as unknown as KubeObject));
    const some = (check: (n: NodeFacts) => boolean): boolean => facts.some(check);
    return (
      some((n) => n.unschedulable) &&
      some((n) => n.allocatable['pods'] === 0) &&
      some((n) => n.taints.some((t) => t.effect === 'NoExecute'))
    );
  });
  return fc.sample(all, { seed: SEED, numRuns: 1 })[0] ?? [];
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
    random = someNodes();
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
    const sample = sampled(0);
    const split = telling(sample, nodes, judged);
    const forgetful = revealing(split, nodes, { judged, each: PODS.revealing });
    const conflicting = { ...sample[0], nodeSelector: { pool: 'b' }, runtimeClassName: 'sandboxed' };
    const chosen = new Set([conflicting, ...sample.slice(0, PODS.any), ...split.slice(0, PODS.telling), ...forgetful]);
    for (const spec of chosen) observations.push({ spec, verdict: await ask(cluster, spec, names) });
  }, 400_000);
  afterAll(async () => cluster?.stop());

  const sampled = (seed: number): Spec[] => fc.sample(podArbitrary(names), { seed: SEED + seed, numRuns: SAMPLE });

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
      disagreements(o, judge(o.spec, nodes), judged).map((name) => ({
        node: random.find((n) => n.name === name)?.object,
        pod: o.spec,
        scheduler: o.verdict.accepted.has(name),
      })),
    );
    expect(wrong.slice(0, 2)).toEqual([]);
    const taken = judgedPods().reduce((sum, o) => sum + judged.filter((n) => o.verdict.accepted.has(n)).length, 0);
    const asked = judgedPods().length * judged.length;
    // Both answers are common, or agreeing would prove little.
    expect(taken / asked).toBeGreaterThan(0.15);
    expect(taken / asked).toBeLessThan(0.8);
    expect(judgedPods().length).toBeGreaterThan(PODS.any + PODS.telling);
  });

  test('a Pod that may choose is placed if and only if there is a candidate or a node that Harbinger keeps out', () => {
    for (const o of judgedPods()) {
      const found = judge(o.spec, nodes).nodes.map((n) => n.name);
      const { chosen, accepted } = o.verdict;
      expect(chosen !== undefined).toBe(accepted.size > 0);
      if (chosen !== undefined && judged.includes(chosen)) expect(found).toContain(chosen);
      if (found.length > 0) expect(chosen).toBeDefined();
    }
  });

  test('a Pod that the API server refuses for its RuntimeClass has no candidates', () => {
    const refused = observations.filter((o) => o.verdict.refused?.includes('runtimeClass'));
    expect(refused).not.toEqual([]);
    for (const o of refused) expect(judge(o.spec, nodes).nodes).toEqual([]);
  });

  test('nodes that Harbinger keeps out by rules of its own are never candidates', () => {
    const own = random.filter((n) => n.ours).map((n) => n.name);
    expect(own).not.toEqual([]);
    for (const { spec } of observations) expect(judge(spec, nodes).nodes.filter((n) => own.includes(n.name))).toEqual([]);
  });

  test.each(Object.entries(BROKEN))('filters that forgot %s would be caught', (_title, broken) => {
    expect(judgedPods().filter((o) => disagreements(o, broken(o.spec, nodes), judged).length > 0)).not.toEqual([]);
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
    }, 180_000);

    const freeNow = (spec: Spec): string[] => {
      const requests = podRequests({ ...spec, overhead: classOf(spec)?.overhead });
      return judge(spec, nodes)
        .nodes.filter((n) => usage.roomFor(n, requests).class === 0)
        .map((n) => n.name);
    };

    test('a candidate has room now if and only if the scheduler takes the Pod there now', async () => {
      const pods = telling(sampled(2000), nodes, judged).slice(0, CROWDED);
      let [before, now] = [0, 0];
      for (const spec of pods) {
        const { refused, accepted } = await ask(cluster, spec, names);
        expect(refused).toBeUndefined();
        const free = freeNow(spec);
        expect({ spec, free: free.sort() }).toEqual({ spec, free: [...accepted].filter((n) => judged.includes(n)).sort() });
        now += free.length;
        before += judge(spec, nodes).nodes.length;
      }
      // The Pods there do keep others away, and not everywhere.
      expect(pods).toHaveLength(CROWDED);
      expect(now).toBeGreaterThan(before / 10);
      expect(now).toBeLessThan((before * 9) / 10);
    }, 180_000);

    test.each(Object.entries(UNMODELLED))(
      '%s goes to none but candidates, and to fewer',
      async (_title, add) => {
        const plain = sampled(3000).map(({ affinity: _affinity, ...rest }) => ({
          ...rest,
          nodeSelector: {},
          tolerations: [{ operator: 'Exists' }],
        }));
        // Where most nodes have room, what else a Pod asks for shows.
        const roomy = plain.filter((spec) => freeNow(spec).length > judged.length / 2).slice(0, 2);
        const narrowed: number[] = [];
        for (const spec of roomy) {
          const { refused, accepted } = await ask(cluster, add(spec), names);
          expect(refused).toBeUndefined();
          const free = freeNow(spec);
          const taken = [...accepted].filter((n) => judged.includes(n));
          expect(taken.filter((n) => !free.includes(n))).toEqual([]);
          narrowed.push(free.length - taken.length);
        }
        expect(narrowed).toEqual([expect.any(Number), expect.any(Number)]);
        expect(Math.max(...narrowed)).toBeGreaterThan(0);
      },
      180_000,
    );
  });
});

const namespace = (name: string): Draft => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });

/** The node controller turns conditions and cordons into taints, one node after the other. */
function isSettled(node: Raw): boolean {
  const taints = (node['spec'].taints ?? []) as { key: string }[];
  const has = (key: string): boolean => taints.some((t) => t.key === `node.kubernetes.io/${key}`);
  return !has('not-ready') && has('unschedulable') === (node['spec'].unschedulable === true);
}
