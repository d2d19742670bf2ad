import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import { encodeNodeClasses, nodeClassesProblem, parseNodeClasses } from '../../../src/placement/node-classes.js';
import { quarantineOf, variantKey } from '../../../src/placement/quarantine.js';
import { NOW, NYDUS, viewOf } from './classes.js';
import { node } from './nodes.js';

const DIGEST = `sha256:${'a'.repeat(64)}`;
const full: NodeClasses = {
  ...viewOf(
    [
      node('a', {
        labels: { 'example.com/nydus': 'ready' },
        taints: [{ key: 'nvidia.com/gpu', value: '"\n', effect: 'NoSchedule' }],
      }),
      node('b'),
    ],
    [{ ...NYDUS, privateImages: true }],
  ),
  quarantined: [
    {
      namespace: 'team',
      variant: DIGEST,
      format: 'nydus',
      reason: 'ImageNotFound',
      message: 'it is "gone"\n',
      until: NOW + 60_000,
    },
  ],
  notes: ['a note'],
};
const configMap = (data: unknown): object => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' }, data });

describe('the published object', () => {
  test('says the same after it was written and read', () => {
    expect(parseNodeClasses(configMap(encodeNodeClasses(full)))).toEqual(full);
    const empty = { ...viewOf([]), capabilities: [] };
    expect(parseNodeClasses(configMap(encodeNodeClasses(empty)))).toEqual(empty);
  });
  test('says nothing of private images where it was written before they were told apart', () => {
    const { classes } = parseNodeClasses(body({ classes: [{ ...aClass, privateFormats: undefined }] })) ?? { classes: [] };
    expect(classes.map((c) => c.privateFormats)).toEqual([undefined]);
    expect(full.classes.flatMap((c) => c.privateFormats ?? [])).toEqual(['nydus']);
  });
  test('has one class a line, for people', () => {
    const text = Object.values(encodeNodeClasses(full)).join('\n');
    expect(text.split('\n').filter((l) => l.includes('"platform"'))).toHaveLength(full.classes.length);
  });

  const good = encodeNodeClasses(full);
  const body = (change: object): object =>
    configMap({
      ...good,
      'node-classes.json': JSON.stringify({ ...(JSON.parse(good['node-classes.json'] ?? '') as object), ...change }),
    });
  const aClass = full.classes[0];
  const unreadable: [string, unknown][] = [
    ['nothing', undefined],
    ['a text', 'x'],
    ['no data', configMap(undefined)],
    ['no time', configMap({ 'node-classes.json': good['node-classes.json'] })],
    ['a time that is none', configMap({ ...good, 'published-at': 'yesterday' })],
    ['no JSON', configMap({ ...good, 'node-classes.json': '{' })],
    ['no classes', body({ classes: undefined })],
    ['a class without a platform', body({ classes: [{ ...aClass, platform: undefined }] })],
    ['a class without labels: it could be any node', body({ classes: [{ ...aClass, labels: null }] })],
    ['a class that is a number among good ones', body({ classes: [aClass, 7] })],
    ['more classes than are ever published', body({ classes: Array.from({ length: 501 }, () => aClass) })],
  ];
  test.each(unreadable)('is unknown as a whole with %s', (_title, raw) => expect(parseNodeClasses(raw)).toBeUndefined());
  test('the control: the same with nothing broken is read', () => expect(parseNodeClasses(body({}))).toEqual(full));

  test('a capability without a selector is dropped, since every Pod would imply it', () => {
    expect(
      parseNodeClasses(body({ capabilities: [{ format: 'nydus' }, { format: 'x', nodeSelector: {} }] }))?.capabilities,
    ).toEqual([]);
  });
  test('more quarantined variants than are ever published are cut', () => {
    const quarantined = Array.from({ length: 1000 }, (_, i) => ({
      namespace: 'n',
      variant: `v${i}`,
      until: '2026-01-01T00:00:00Z',
    }));
    expect(parseNodeClasses(body({ quarantined }))?.quarantined).toHaveLength(200);
  });
  test('of a variant that is no image, and of a long message, nothing long is read', () => {
    const entry = full.quarantined[0];
    const until = new Date(NOW + 60_000).toISOString();
    const quarantined = [
      { ...entry, until, variant: 'x'.repeat(513) },
      { ...entry, until, message: 'm'.repeat(100_000) },
    ];
    const read = parseNodeClasses(body({ quarantined }))?.quarantined ?? [];
    expect(read.map((q) => [q.variant, q.message.length])).toEqual([[DIGEST, 256]]);
  });
  test('gives up the quarantine, and says so, before the classes of nodes are lost to its size', () => {
    const [entry] = full.quarantined;
    if (entry === undefined) throw new Error('the fixture has a quarantined variant');
    const of = (count: number): NodeClasses => ({
      ...full,
      quarantined: Array.from({ length: count }, (_, i) => ({ ...entry, variant: `${i}${'x'.repeat(200_000)}` })),
    });
    const large = encodeNodeClasses(of(20));
    expect(Object.values(large).join('').length).toBeLessThan(1024 * 1024);
    expect(parseNodeClasses(configMap(large))).toEqual({
      ...full,
      quarantined: [],
      notes: ['a note', expect.stringContaining('20 variants that nodes cannot pull are not named')],
    });
    expect(parseNodeClasses(configMap(encodeNodeClasses(full)))?.quarantined).toHaveLength(1);
  });
  test('nothing makes the reader throw', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('tracked', 'classes', 'capabilities', 'quarantined', 'notes'),
        (value, field) => {
          parseNodeClasses(body({ [field]: value }));
          parseNodeClasses(configMap({ ...good, 'node-classes.json': JSON.stringify(value) }));
          parseNodeClasses(value);
        },
      ),
    );
  });
});

describe('whether the picture of the nodes can be used', () => {
  const rows: [string, NodeClasses | undefined, number, string | undefined][] = [
    ['just published', full, NOW, undefined],
    ['four missed heartbeats', full, NOW + 299_000, undefined],
    ['older than five minutes', full, NOW + 301_000, 'was last renewed at 2026-01-01T00:00:00.000Z'],
    ['of a future that no clock skew explains', full, NOW - 301_000, 'was last renewed at'],
    ['absent', undefined, NOW, 'is absent or cannot be read'],
  ];
  test.each(rows)('%s', (_title, view, now, problem) => {
    if (problem === undefined) expect(nodeClassesProblem(view, now)).toBeUndefined();
    else expect(nodeClassesProblem(view, now)).toContain(problem);
  });
});

describe('a quarantined variant', () => {
  const image = `reg.example.com/a@${DIGEST}`;
  const rows: [string, { namespace: string; image: string; now: number }, boolean][] = [
    ['is left in the namespace where it failed', { namespace: 'team', image, now: NOW }, true],
    ['whatever else its name says', { namespace: 'team', image: `reg.example.com/b:v1@${DIGEST}`, now: NOW }, true],
    ['by its digest alone', { namespace: 'team', image: DIGEST, now: NOW }, true],
    ['not in another namespace', { namespace: 'other', image, now: NOW }, false],
    ['not after its time', { namespace: 'team', image, now: NOW + 60_000 }, false],
    ['not under another digest', { namespace: 'team', image: image.replace(/a$/, 'b'), now: NOW }, false],
  ];
  test.each(rows)('%s', (_title, pod, left) => expect(quarantineOf(full, pod) !== undefined).toBe(left));
  test('is known by its image where that names no digest', () => {
    expect(variantKey('reg.example.com/a:v1-nydus')).toBe('reg.example.com/a:v1-nydus');
    expect(variantKey('not an image')).toBe('not an image');
  });
  test('is none while nothing is known', () =>
    expect(quarantineOf(undefined, { namespace: 'team', image, now: NOW })).toBeUndefined());
});
