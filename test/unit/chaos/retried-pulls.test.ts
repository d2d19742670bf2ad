import { expect, test } from '@jest/globals';
import { FAILING_FREE } from '../../../src/preheat/budgets.js';
import { pullTruths, withinRealBudgets } from '../../chaos/real/truth.js';
import type { RealPull } from '../../chaos/real/truth.js';
import type { Seen } from '../../chaos/real/recorder.js';

const DIGEST = `sha256:${'a'.repeat(64)}`;
const LIMITS = { maxPullingNodes: 2, maxPullingNodesPerRegistry: 2 };
const pull = (i: number, again: boolean, node = `n${i}`): RealPull => ({
  node,
  digest: DIGEST,
  registry: 'r',
  from: i,
  to: 1_000,
  again,
});
const pulls = (granted: number, again: number): RealPull[] =>
  Array.from({ length: granted + again }, (_, i) => pull(i, i >= granted));

// One image: the limit, those that may fail, and one more.
const MOST = LIMITS.maxPullingNodes + FAILING_FREE + 1;

test.each<[string, RealPull[], boolean]>([
  ['granted pulls at the limit', pulls(2, 0), true],
  ['granted pulls beyond it', pulls(3, 0), false],
  ['as many retries as may come back by themselves', pulls(2, MOST - 2), true],
  ['one more of them: an outage that walked the cluster', pulls(2, MOST - 1), false],
  ['nothing but retries, one too many', pulls(0, MOST + 1), false],
  ['a retry beside a granted pull on its node', [pull(0, false, 'n'), pull(1, true, 'n')], true],
  ['two granted pulls on one node', [pull(0, false, 'n'), pull(1, false, 'n')], false],
])('budgets on real nodes: %s', (_case, all, kept) => {
  expect(withinRealBudgets(all, LIMITS).length === 0).toBe(kept);
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
  expect(pullTruths(seen).map(({ from, again }) => [from, again])).toEqual([
    [10, false],
    [20_000, true],
  ]);
});
