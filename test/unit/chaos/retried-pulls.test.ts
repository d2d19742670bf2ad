import { expect, test } from '@jest/globals';
import { FAILING_FREE } from '../../../src/preheat/budgets.js';
import type { BegunBy, PullTruth } from '../../chaos/invariants/index.js';
import { withinBudgets } from '../../chaos/invariants/index.js';
import { pullTruths } from '../../chaos/real/truth.js';
import type { Seen } from '../../chaos/real/recorder.js';

const DIGEST = `sha256:${'a'.repeat(64)}`;
const LIMITS = { maxPullingNodes: 2, maxPullingNodesPerRegistry: 2 };
const pull = (i: number, begunBy: BegunBy, node = `n${i}`): PullTruth => ({
  node,
  digest: DIGEST,
  registry: 'r',
  from: i,
  to: 1_000,
  begunBy,
});
const pulls = (granted: number, again: number, others: BegunBy = 'kubelet'): PullTruth[] =>
  Array.from({ length: granted + again }, (_, i) => pull(i, i < granted ? 'planner' : others));

// One image: the limit, those that may fail, and one more.
const MOST = LIMITS.maxPullingNodes + FAILING_FREE + 1;

test.each<[string, PullTruth[], boolean]>([
  ['granted pulls at the limit', pulls(2, 0), true],
  ['granted pulls beyond it', pulls(3, 0), false],
  ['as many retries as may come back by themselves', pulls(2, MOST - 2), true],
  ['one more of them: an outage that walked the cluster', pulls(2, MOST - 1), false],
  ['nothing but retries, one too many', pulls(0, MOST + 1), false],
  ['a retry beside a granted pull on its node', [pull(0, 'planner', 'n'), pull(1, 'kubelet', 'n')], true],
  ['two granted pulls on one node', [pull(0, 'planner', 'n'), pull(1, 'planner', 'n')], false],
  ['a pull beside the limit on a node that a person wrote into a set', pulls(2, 1, 'person'), true],
  ['such a pull, and one granted too many', [pull(9, 'person'), ...pulls(3, 0)], false],
])('budgets: %s', (_case, all, kept) => {
  expect(withinBudgets(all, LIMITS).length === 0).toBe(kept);
});

test('a pull that follows a failure of the same Pod is told from one that was granted', () => {
  const image = `r/x@${DIGEST}`;
  const puller = (reason: string) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', uid: 'u', labels: { 'harbinger.dev/puller': 'h' } },
    spec: { nodeName: 'n', volumes: [{ image: { reference: image } }] },
    status: { containerStatuses: [{ state: { waiting: { reason } } }] },
  });
  const object = (at: number, reason: string): Seen =>
    ({ what: 'object', at, type: 'MODIFIED', object: puller(reason) }) as unknown as Seen;
  const running = (at: number, images: string[]): Seen => ({ what: 'pulls', at, node: 'n', images }) as unknown as Seen;
  const seen = [
    object(0, 'ContainerCreating'),
    running(10, [image]),
    running(5_000, []),
    object(5_010, 'ErrImagePull'),
    running(20_000, [image]),
  ];
  expect(pullTruths(seen).map(({ from, begunBy }) => [from, begunBy])).toEqual([
    [10, 'planner'],
    [20_000, 'kubelet'],
  ]);
});
