import { describe, expect, test } from '@jest/globals';
import type { Capability } from '../../../src/placement/capability.js';
import { constraintsOf } from '../../../src/placement/constraints.js';
import type { Landing } from '../../../src/placement/landing.js';
import { landingOf, mergeLandings, obstacleTo, platformsNeeded, privateObstacleTo } from '../../../src/placement/landing.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { is, named, NOW, NYDUS, ready, required, viewOf } from './classes.js';

const land = (podSpec: object, nodes: readonly NodeFacts[]): Landing =>
  landingOf(constraintsOf(podSpec as never), viewOf(nodes), NOW);

describe('platforms that an image has to serve', () => {
  const [arch, os] = ['kubernetes.io/arch', 'kubernetes.io/os'];
  const amd64 = [named('x', {})];
  const both = [...amd64, named('y', {}, { arch: 'arm64' })];
  const windows = [...amd64, named('w', { [os]: 'windows' }, { os: 'windows' })];
  /** Where nodes of another kind may join, where none will, and where that is all the same; absent: all of the source. */
  interface Needed {
    open?: string[];
    closed?: string[];
    always?: string[];
  }
  const rows: [string, object, NodeFacts[], Needed][] = [
    [
      'all of the source, as nodes of another kind may join; those of now where none will',
      {},
      amd64,
      { closed: ['linux/amd64'] },
    ],
    ['those of all nodes of now where none of another kind will join', {}, both, { closed: ['linux/amd64', 'linux/arm64'] }],
    [
      'those of a pool say nothing of its later nodes',
      { nodeSelector: { pool: 'x' } },
      [named('x', { pool: 'x' })],
      { closed: ['linux/amd64'] },
    ],
    ['the one that the Pod selects', { nodeSelector: { [arch]: 'amd64' } }, both, { always: ['linux/amd64'] }],
    [
      'the one that it selects though no node of now has it',
      { nodeSelector: { [arch]: 's390x' } },
      both,
      { always: ['linux/s390x'] },
    ],
    ['those of a required affinity', required(is(arch, 'arm64', 'amd64')), amd64, { always: ['linux/amd64', 'linux/arm64'] }],
    ['those of all terms', required(is(arch, 'amd64'), is(arch, 'arm64')), both, { always: ['linux/amd64', 'linux/arm64'] }],
    ['not fixed by one term of two', required(is(arch, 'amd64'), is('pool', 'gpu')), amd64, { closed: ['linux/amd64'] }],
    [
      'what selector and term leave together',
      { nodeSelector: { [arch]: 'amd64' }, ...required(is(arch, 'amd64', 'arm64')) },
      both,
      { always: ['linux/amd64'] },
    ],
    [
      'not fixed by an operator other than In',
      required({ matchExpressions: [{ key: arch, operator: 'NotIn', values: ['arm64'] }] }),
      amd64,
      { closed: ['linux/amd64'] },
    ],
    [
      'not fixed by a name of a node',
      required({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['x'] }] }),
      amd64,
      { closed: ['linux/amd64'] },
    ],
    [
      'not fixed by a preference',
      {
        affinity: {
          nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: is(arch, 'amd64') }] },
        },
      },
      amd64,
      { closed: ['linux/amd64'] },
    ],
    [
      'not fixed by demands that contradict each other',
      { nodeSelector: { [arch]: 'amd64' }, ...required(is(arch, 'arm64')) },
      both,
      {},
    ],
    ['of linux where no other system is there', { nodeSelector: { [arch]: 'arm64' } }, windows, { always: ['linux/arm64'] }],
    [
      'of each system of now where the Pod selects none',
      { nodeSelector: { [arch]: 'amd64' } },
      windows,
      { always: ['linux/amd64', 'windows/amd64'] },
    ],
    [
      'of the system that the Pod selects',
      { nodeSelector: { [arch]: 'amd64', [os]: 'windows' } },
      windows,
      { always: ['windows/amd64'] },
    ],
  ];
  test.each(rows)('%s', (_title, podSpec, nodes, { always, open = always, closed = always }) => {
    const landing = land(podSpec, nodes);
    expect([platformsNeeded(landing, false), platformsNeeded(landing, true)]).toEqual([open, closed]);
  });
  test('are those that the Pod selects even while the nodes are not known', () => {
    const landing = landingOf(constraintsOf({ nodeSelector: { [arch]: 'amd64' } }), undefined, NOW);
    expect(platformsNeeded(landing, false)).toEqual(['linux/amd64']);
    expect(platformsNeeded(landingOf(constraintsOf({}), undefined, NOW), true)).toBeUndefined();
    expect(platformsNeeded(undefined, true)).toBeUndefined();
  });
  test('are those of all kinds of Pods together, and open where one kind leaves them open', () => {
    const pods = ['amd64', 'arm64'].map((a) => land({ nodeSelector: { [arch]: a } }, both));
    expect(platformsNeeded(mergeLandings(pods), false)).toEqual(['linux/amd64', 'linux/arm64']);
    expect(platformsNeeded(mergeLandings([...pods, land({}, both)]), false)).toBeUndefined();
  });
  test('are part of the key: answers for one are none for the other', () => {
    expect(land({ nodeSelector: { [arch]: 'amd64' } }, amd64).key).not.toBe(land({}, amd64).key);
  });
});

describe('images that nobody may read without credentials', () => {
  const own: Capability = { ...NYDUS, privateImages: true };
  const keys: Capability = { format: 'nydus', nodeSelector: { ...ready, keys: 'yes' }, privateImages: true };
  const nodes = [named('a', { ...ready, keys: 'yes' }), named('b', ready)];
  const obstacle = (podSpec: object, capabilities: Capability[], closed = false): string | undefined =>
    privateObstacleTo('nydus', landingOf(constraintsOf(podSpec as never), viewOf(nodes, capabilities), NOW), closed);
  const demand = { nodeSelector: ready };

  test('are left on nodes that are declared for the format alone', () => {
    const landing = landingOf(constraintsOf(demand), viewOf(nodes, [NYDUS]), NOW);
    expect(obstacleTo('nydus', landing, false)).toBeUndefined();
    expect(privateObstacleTo('nydus', landing, false)).toContain('no node is known to fetch private nydus images');
    expect(privateObstacleTo('nydus', landing, true)).toContain('set privateImages in the entry for nydus under capabilities');
  });
  test('are given where the declaration says that the snapshotter has credentials', () =>
    expect(obstacle(demand, [own])).toBeUndefined());
  const rows: [string, object, boolean, string | undefined][] = [
    [
      'one node of now has none',
      demand,
      true,
      '1 of the 2 nodes that the Pod can land on are not known to fetch private nydus images',
    ],
    ['the Pod demands the nodes that have them', { nodeSelector: { ...ready, keys: 'yes' } }, false, undefined],
    [
      'a node that joins later may have none',
      { nodeSelector: { keys: 'yes' } },
      false,
      'a node that joins later may not fetch private nydus images: require',
    ],
    ['no other node will join', { nodeSelector: { keys: 'yes' } }, true, undefined],
  ];
  test.each(rows)('of two declarations, one with credentials: %s', (_title, podSpec, closed, text) => {
    if (text === undefined) expect(obstacle(podSpec, [NYDUS, keys], closed)).toBeUndefined();
    else expect(obstacle(podSpec, [NYDUS, keys], closed)).toContain(text);
  });
  test('are left where nothing is known', () => {
    for (const landing of [
      undefined,
      landingOf(constraintsOf(demand), undefined, NOW),
      { platforms: [], now: {}, later: {}, key: '' },
    ])
      expect(privateObstacleTo('nydus', landing, true)).toContain('known');
  });
  test('have a key of their own', () => {
    const key = (c: Capability): string => landingOf(constraintsOf(demand), viewOf(nodes, [c]), NOW).key;
    expect(key(own)).not.toBe(key(NYDUS));
  });
  test('are judged for all kinds of Pods together', () => {
    const kinds = [own, NYDUS].map((c) => landingOf(constraintsOf(demand), viewOf(nodes, [c]), NOW));
    expect(privateObstacleTo('nydus', mergeLandings(kinds), false)).toBeDefined();
    expect(privateObstacleTo('nydus', mergeLandings(kinds.slice(0, 1)), false)).toBeUndefined();
  });
});
