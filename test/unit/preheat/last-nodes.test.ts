import { describe, expect, test } from '@jest/globals';
import type { FailureReason } from '../../../src/api/reasons.js';
import { candidates } from '../../../src/placement/candidates.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { Progress } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { node } from '../placement/nodes.js';
import { puller } from './fixtures.js';

const NODES = ['n1', 'n2', 'n3'].map((name) => node(name));
const pulling = (since: number): PullState => ({ state: 'pulling', inFlight: true, since });
const warm: PullState = { state: 'warm', inFlight: false, tookMs: 1000 };
const failed = (reason: FailureReason): PullState => ({ state: 'failed', inFlight: false, reason, message: 'not found' });
const [one, other] = [puller(), puller('b')];

/** Progress of a gang with two podSets, an image each, in this state on these nodes. */
function progress(states: [Puller, Record<string, PullState>][]): Progress | undefined {
  const targets = [one, other].map((p, i) => {
    const target = { name: `t${i}`, images: [{ reference: 'x' }], nodes: { selector: {} } };
    return { name: target.name, pullers: [p], complete: true, candidates: candidates(target, NODES) };
  });
  const rank = { reserved: true, priority: 0, queuedAt: 0 };
  const world = {
    nodes: new Map(NODES.map((n) => [n.name, n])),
    pullers: new Map(states.map(([p]) => [p.hash, p])),
    pulls: new Map(states.map(([p, byNode]) => [p.hash, new Map(Object.entries(byNode))])),
  };
  const gang = { key: 'g', mayPull: true, keep: true, rank, rampUp: 'Immediate' as const, targets };
  return plan([gang], world, { maxPullingNodes: 100, maxPullingNodesPerRegistry: 100 }).progress.get('g');
}

describe('what a gang waits for', () => {
  test('is the pull that has run longest', () =>
    expect(
      progress([
        [one, { n1: warm, n2: pulling(7), n3: pulling(5) }],
        [other, { n1: pulling(9) }],
      ])?.slowest,
    ).toEqual({ node: 'n3', since: 5 }));

  const rows: [string, Record<string, PullState>, boolean][] = [
    [
      'an image that the first node does not find is lost, though the other image is pulled still',
      { n1: failed('ImageNotFound') },
      true,
    ],
    ['one that a node may not read', { n1: failed('AuthDenied'), n2: pulling(1) }, true],
    ['negative twin: a bad node', { n1: failed('InsufficientDisk') }, false],
    ['negative twin: a node whose mirror lacks what others found', { n1: failed('ImageNotFound'), n2: warm, n3: warm }, false],
    ['negative twin: none failed', { n1: pulling(1) }, false],
  ];
  test.each(rows)('%s', (_title, states, lost) => {
    const result = progress([
      [one, { n1: pulling(1), n2: pulling(2) }],
      [other, states],
    ]);
    expect(result?.lost?.image).toBe(lost ? other.image : undefined);
  });
});
