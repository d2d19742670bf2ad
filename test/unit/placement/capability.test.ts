import { describe, expect, test } from '@jest/globals';
import type { CapabilityConfig, RuntimeClassFacts } from '../../../src/placement/capability.js';
import { formatsOf, resolveCapabilities, runtimeClassFacts } from '../../../src/placement/capability.js';
import { nodeFacts } from '../../../src/placement/node-facts.js';
import { NOW } from './classes.js';
import { node } from './nodes.js';

const entry = (change: Partial<CapabilityConfig>): CapabilityConfig => ({ format: 'nydus', heartbeatSeconds: 600, ...change });
const byLabel = entry({ nodeSelector: { snapshotter: 'nydus' } });
const bySign = entry({ nodeSelector: { snapshotter: 'nydus' }, condition: 'NydusReady' });
const labelled = { labels: { snapshotter: 'nydus' } };
const ago = (seconds: number): { conditions: Record<string, number> } => ({ conditions: { NydusReady: NOW - seconds * 1000 } });

describe('whether a node is known to run a format', () => {
  const rows: [string, CapabilityConfig, Parameters<typeof node>[1], boolean][] = [
    ['its labels say so', byLabel, labelled, true],
    ['its labels say something else', byLabel, { labels: { snapshotter: 'overlayfs' } }, false],
    ['it has no such label', byLabel, {}, false],
    ['one of two labels is missing', entry({ nodeSelector: { snapshotter: 'nydus', pool: 'gpu' } }), labelled, false],
    ['a label of every object in JavaScript is no label of the node', entry({ nodeSelector: { constructor: '' } }), {}, false],
    ['an empty selector declares every node', entry({ nodeSelector: {} }), {}, true],
    ['a sign of a minute ago', bySign, { ...labelled, ...ago(60) }, true],
    ['a sign of twenty minutes ago: the snapshotter may be dead', bySign, { ...labelled, ...ago(1200) }, false],
    ['a sign of the future is of a clock that is wrong', bySign, { ...labelled, ...ago(-1200) }, false],
    ['no sign at all', bySign, labelled, false],
    ['a sign without the labels', bySign, ago(1), false],
    ['a shorter heartbeat', { ...bySign, heartbeatSeconds: 30 }, { ...labelled, ...ago(60) }, false],
  ];
  test.each(rows)('%s', (_title, config, change, capable) => {
    const { capabilities } = resolveCapabilities([config], () => undefined);
    expect(formatsOf(node('n', change), capabilities, NOW)).toEqual(capable ? ['nydus'] : []);
  });

  test('any of several entries for a format is enough, and formats are told apart', () => {
    const entries = [
      byLabel,
      entry({ nodeSelector: { lazy: 'yes' } }),
      entry({ format: 'overlaybd', nodeSelector: { obd: 'yes' } }),
    ];
    const { capabilities } = resolveCapabilities(entries, () => undefined);
    expect(formatsOf(node('n', { labels: { lazy: 'yes', obd: 'yes' } }), capabilities, NOW)).toEqual(['nydus', 'overlaybd']);
    expect(formatsOf(node('n', { labels: { obd: 'yes' } }), capabilities, NOW)).toEqual(['overlaybd']);
  });
});

describe('a capability that names a RuntimeClass', () => {
  const config = entry({ runtimeClass: 'lazy' });
  const raw = (scheduling: object | undefined): RuntimeClassFacts =>
    runtimeClassFacts({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'lazy' },
      handler: 'lazy',
      scheduling,
    });
  const rows: [string, RuntimeClassFacts | undefined, object | undefined, string | undefined][] = [
    ['means the nodes that it selects', raw({ nodeSelector: { a: 'b' } }), { a: 'b' }, undefined],
    ['that does not exist means no node', undefined, undefined, 'capability nydus: RuntimeClass lazy does not exist'],
    ['without scheduling means no node', raw(undefined), undefined, 'RuntimeClass lazy has no scheduling.nodeSelector'],
    [
      'with an empty selector means no node',
      raw({ nodeSelector: {} }),
      undefined,
      'RuntimeClass lazy has no scheduling.nodeSelector',
    ],
    ['with a selector that is no map means no node', raw({ nodeSelector: 7 }), undefined, 'has no scheduling.nodeSelector'],
  ];
  test.each(rows)('%s', (_title, runtimeClass, nodeSelector, note) => {
    const found = resolveCapabilities([config], (name) => (name === 'lazy' ? runtimeClass : undefined));
    expect(found.capabilities.map((c) => c.nodeSelector)).toEqual(nodeSelector === undefined ? [] : [nodeSelector]);
    expect(found.notes).toEqual(note === undefined ? [] : [expect.stringContaining(note)]);
  });
});

describe('what is kept of the conditions of a node', () => {
  const raw = (conditions: object[]): ReturnType<typeof nodeFacts> =>
    nodeFacts({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' }, status: { conditions } });
  const at = '2026-01-01T00:00:00Z';
  test('is the heartbeat of those that are True', () => {
    const conditions = [
      { type: 'Ready', status: 'True', lastHeartbeatTime: at },
      { type: 'NydusReady', status: 'True', lastHeartbeatTime: at },
      { type: 'KernelDeadlock', status: 'False', lastHeartbeatTime: at },
      { type: 'NoBeat', status: 'True' },
      { type: 'BadBeat', status: 'True', lastHeartbeatTime: 'soon' },
    ];
    expect(raw(conditions).conditions).toEqual({ Ready: NOW, NydusReady: NOW });
  });
  test('is bounded', () => {
    const many = Array.from({ length: 1000 }, (_, i) => ({ type: `T${i}`, status: 'True', lastHeartbeatTime: at }));
    expect(Object.keys(raw(many).conditions ?? {})).toHaveLength(32);
  });
  test('is nothing where there are none', () => expect(raw([]).conditions).toBeUndefined());
});
