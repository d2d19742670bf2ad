import { describe, expect, test } from '@jest/globals';
import type { Change, ImageTruth, Period, Silence } from '../../chaos/invariants/index.js';
import { provenWarm } from '../../chaos/invariants/index.js';
import { added, deleted, image, modified, node, prewarm, puller, workload } from './histories.js';

const READY = { Ready: 'AllNodesWarm' };
const HOUR = 3_600_000;
const claim = prewarm({ digest: 1, is: READY, warm: 2 });
const noClaim = prewarm({ digest: 1, warm: 0 });
const disks = [image(0, 'a', 1), image(0, 'b', 1)];
const machines = [added(0, node('a', true)), added(0, node('b', true))];
const pullers = [added(1_000, puller('a', 1)), added(1_000, puller('b', 1))];
const claimed = [added(10_000, claim), modified(HOUR, noClaim)];
const told = (history: Change[], images: ImageTruth[] = disks, blind: Period[] = [], silences: Silence[] = []): string[] =>
  provenWarm({
    history: [...history].sort((x, y) => x.at - y.at),
    images,
    lagMs: 12_000,
    takenBackMs: { disk: 90_000, shown: 30_000 },
    blind,
    silences,
  }).map((v) => v.message);

describe('the checker of P4 tells of a claim', () => {
  test.each<[string, Change[], ImageTruth[], RegExp]>([
    ['without images on the disks', [...machines, ...pullers, ...claimed], [], /Ready with 2 warm nodes, proven was it on 0/],
    ['without any puller', [...machines, ...claimed], disks, /proven was it on 0/],
    [
      'on a node that is NotReady throughout',
      [added(0, node('a', true)), added(0, node('b', false)), ...pullers, ...claimed],
      disks,
      /proven was it on 1/,
    ],
    ['on a node that was never there', [added(0, node('a', true)), ...pullers, ...claimed], disks, /proven was it on 1/],
    [
      'before the startup probe has passed',
      [...machines, added(1_000, puller('a', 1)), added(1_000, puller('b', 1, { started: false })), ...claimed],
      disks,
      /proven was it on 1/,
    ],
    [
      'with pullers of another digest',
      [...machines, added(1_000, puller('a', 1)), added(1_000, puller('b', 2)), ...claimed],
      disks,
      /proven was it on 1/,
    ],
    [
      'that stands while a node is NotReady',
      [...machines, ...pullers, ...claimed, modified(100_000, node('b', false)), modified(140_000, node('b', true))],
      disks,
      /still Ready 40000 ms/,
    ],
    [
      'that stands without one of its pullers',
      [...machines, ...pullers, ...claimed, deleted(100_000, puller('b', 1))],
      disks,
      /still Ready \d+ ms/,
    ],
    [
      'that stands after the node was replaced',
      [...machines, ...pullers, ...claimed, deleted(100_000, node('b', true)), added(160_000, node('b', true, 'b-2'))],
      disks,
      /still Ready 60000 ms/,
    ],
    [
      'that stands after the image was collected',
      [...machines, ...pullers, ...claimed],
      [...disks, image(100_000, 'b', 1, false), image(200_000, 'b', 1)],
      /still Ready 100000 ms/,
    ],
  ])('%s', (_what, history, images, message) => {
    expect(told(history, images)).toEqual([expect.stringMatching(message)]);
  });
});

describe('the checker of P4 lets pass a claim', () => {
  test.each<[string, Change[], ImageTruth[]]>([
    ['that is true', [...machines, ...pullers, ...claimed], disks],
    [
      'that was true a moment before',
      [...machines, ...pullers, modified(5_000, node('b', false)), added(10_000, claim), modified(20_000, noClaim)],
      disks,
    ],
    [
      'that is taken back in time',
      [...machines, ...pullers, added(10_000, claim), modified(100_000, node('b', false)), modified(125_000, noClaim)],
      disks,
    ],
    [
      'that stands on an image that was away for a minute',
      [...machines, ...pullers, ...claimed],
      [...disks, image(100_000, 'b', 1, false), image(160_000, 'b', 1)],
    ],
    [
      'of a gang that was let go',
      [
        ...machines,
        ...pullers,
        added(10_000, prewarm({ digest: 1, is: { ...READY, Released: 'WarmVerified' }, warm: 2 })),
        deleted(20_000, puller('b', 1)),
        modified(HOUR, noClaim),
      ],
      disks,
    ],
  ])('%s', (_what, history, images) => {
    expect(told(history, images)).toEqual([]);
  });

  test('that nobody could take back', () => {
    const history = [...machines, ...pullers, ...claimed, deleted(100_000, puller('b', 1))];
    expect(told(history, disks, [{ from: 90_000, to: HOUR }])).toEqual([]);
  });
});

describe('a claim on a machine that died with its disk and still counts as Ready', () => {
  const history = [...machines, ...pullers, added(60_000, claim), modified(70_000, noClaim)];
  const dies = (when: number): ImageTruth[] => [...disks, image(when, 'b', 1, false)];
  const silent = (node: string, from: number): Silence[] => [{ node, from, to: HOUR }];
  test.each<[string, ImageTruth[], Silence[], number]>([
    ['lets pass where it fell silent less than 40 s before', dies(30_000), silent('b', 30_000), 0],
    ['tells of it where it fell silent longer before', dies(5_000), silent('b', 5_000), 1],
    ['tells of it where another machine was silent', dies(30_000), silent('a', 30_000), 1],
    ['tells of it where its kubelet spoke', dies(30_000), [], 1],
  ])('%s', (_what, images, silences, found) => {
    expect(told(history, images, [], silences)).toHaveLength(found);
  });
});

describe('the word of a check that images are warm', () => {
  const words = [
    added(100_000, workload({ state: 'Pending', reservedAt: 100_000 })),
    modified(110_000, workload({ state: 'Ready', reservedAt: 100_000, message: 'images warm on 2/2 nodes' })),
  ];
  const anew = [added(0, noClaim), deleted(5_000, noClaim), added(6_000, prewarm({ uid: 'p2', digest: 1 }))];

  test.each<[string, Change[], ImageTruth[], string[]]>([
    [
      'is judged',
      [...machines, ...pullers, added(0, noClaim), ...words],
      [],
      ['"images warm on 2/2 nodes", proven was it on 0 nodes'],
    ],
    [
      'is judged after the ImagePrewarm was made anew',
      [...machines, ...pullers, ...anew, ...words],
      [],
      ['"images warm on 2/2 nodes", proven was it on 0 nodes'],
    ],
    [
      'is judged where there is no ImagePrewarm',
      [...machines, ...pullers, added(0, noClaim), deleted(5_000, noClaim), ...words],
      disks,
      ['"images warm on 2/2 nodes", there was no ImagePrewarm'],
    ],
    ['may be true', [...machines, ...pullers, ...anew, ...words], disks, []],
  ])('%s', (_what, history, images, messages) => {
    expect(told(history, images)).toEqual(messages);
  });
});
