import { describe, expect, test } from '@jest/globals';
import type { Log } from '../../../src/observe/log.js';
import type { Scope } from '../../../src/rewrite/scope.js';
import { webhookView } from '../../../src/webhook/certs/ca-bundle.js';
import { readAuthority, regenerate } from '../../../src/webhook/certs/ca-secret.js';
import { CertKeeper } from '../../../src/webhook/certs/keeper.js';
import { selectedBy, selectorProblem } from '../../../src/webhook/certs/selector.js';
import type { Selected } from '../../../src/webhook/certs/selector.js';
import { webhookConfiguration } from '../../../tools/generate/webhook-configuration.js';
import { FakeClock } from '../kube/fake-clock.js';

const KEY = 'harbinger.dev/accelerate';
const [LABELLED, ALL] = [
  { operator: 'In', value: 'enabled' },
  { operator: 'NotIn', value: 'disabled' },
].map((term) => webhookConfiguration('ours', term));
const entry = (configuration: unknown): Record<string, unknown> =>
  (configuration as { webhooks: [Record<string, unknown>] }).webhooks[0];
const by = (...terms: object[]): Record<string, unknown> => ({ namespaceSelector: { matchExpressions: terms } });

describe('a namespaceSelector', () => {
  test.each<[string, Record<string, unknown>, Selected]>([
    ['of the plain manifests', entry(LABELLED), 'labelled'],
    ['of the chart for all namespaces', entry(ALL), 'not-disabled'],
    ['by matchLabels', { namespaceSelector: { matchLabels: { [KEY]: 'enabled' } } }, 'labelled'],
    ['that asks for another label', by({ key: 'team', operator: 'Exists' }), 'all'],
    ['that is absent', {}, 'all'],
    ['of a value of somebody', by({ key: KEY, operator: 'In', values: ['canary'] }), 'other'],
    ['of several values', by({ key: KEY, operator: 'In', values: ['enabled', 'canary'] }), 'other'],
    ['of two terms', by({ key: KEY, operator: 'Exists' }, { key: KEY, operator: 'In', values: ['enabled'] }), 'other'],
    ['of garbage', { namespaceSelector: { matchExpressions: [{ key: KEY, values: 7 }, 'x'] } }, 'other'],
  ])('%s is read', (_, webhook, selected) => {
    expect(selectedBy(webhook)).toBe(selected);
  });

  test.each<[Scope, Selected, RegExp | undefined]>([
    ['AllNamespaces', 'labelled', /operator: NotIn, values: \[disabled\]/],
    ['AllNamespaces', 'not-disabled', undefined],
    ['AllNamespaces', 'all', undefined],
    ['AllNamespaces', 'other', undefined],
    ['LabelledNamespaces', 'labelled', undefined],
    ['LabelledNamespaces', 'not-disabled', /operator: In, values: \[enabled\]/],
    ['LabelledNamespaces', 'all', /a call for nothing/],
    ['LabelledNamespaces', 'other', undefined],
  ])('with scope %s: %s', (scope, selected, problem) => {
    const found = selectorProblem(scope, selected);
    expect(found).toEqual(problem === undefined ? undefined : expect.stringMatching(problem));
  });
});

test('the replica that keeps the configuration warns once when scope and selector disagree, and again when they do so anew', async () => {
  const warnings: unknown[] = [];
  const log = { info: () => undefined, warn: (about: { problem?: string }) => warnings.push(about.problem) } as unknown as Log;
  const clock = new FakeClock();
  const authority = readAuthority({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'ca' },
    data: regenerate(undefined, clock.now(), 1e9),
  });
  let scope: Scope = 'AllNamespaces';
  const view = webhookView({ ...LABELLED, metadata: { name: 'harbinger' } } as unknown as Parameters<typeof webhookView>[0]);
  let turns = 0;
  const keeper = new CertKeeper({
    client: { patch: () => Promise.resolve({}) },
    authority: { ensure: () => Promise.resolve(authority) },
    configuration: { get: () => view, hasSynced: true, onChange: () => undefined },
    configurationName: 'harbinger',
    names: ['a.example'],
    leafValidityMs: 1e8,
    scope: () => scope,
    clock,
    log,
    onLeaf: () => turns++,
  } as unknown as ConstructorParameters<typeof CertKeeper>[0]);
  const turn = async (next: Scope): Promise<void> => {
    scope = next;
    keeper.kick();
    await clock.advance(0);
  };
  await turn('AllNamespaces');
  await turn('AllNamespaces');
  expect([turns, warnings]).toEqual([1, [expect.stringContaining('scope is AllNamespaces')]]);
  await turn('LabelledNamespaces');
  expect(warnings).toHaveLength(1);
  await turn('AllNamespaces');
  expect(warnings).toHaveLength(2);
  await keeper.stop();
});
