import { describe, expect, test } from '@jest/globals';
import { ConfigError, defaultConfig, loadConfig, parseConfig } from '../../../src/config/load.js';

describe('parseConfig', () => {
  test('an empty file means the documented defaults', () => {
    expect(parseConfig('', 'config.yaml')).toEqual(defaultConfig());
    expect(defaultConfig()).toMatchObject({
      mode: 'On',
      scope: 'LabelledNamespaces',
      registries: [],
      budgets: { admissionMs: 1000, unstampedHoldSeconds: 30 },
    });
  });

  test('fields that are given replace defaults and leave the others', () => {
    const config = parseConfig(
      'mode: Observe\nbudgets: {admissionMs: 500}\nregistries: [{host: "r.example.com:5000", plainHTTP: true}]',
      'f',
    );
    expect(config.mode).toBe('Observe');
    expect(config.budgets).toEqual({ ...defaultConfig().budgets, admissionMs: 500 });
    expect(config.registries).toEqual([
      { host: 'r.example.com:5000', allow: true, plainHTTP: true, allowLocalAddresses: false, mirrors: [] },
    ]);
  });

  test('names of pull secrets for pullers are taken in their order; there are none by default', () => {
    expect(defaultConfig().pullers.pullSecrets).toEqual([]);
    expect(parseConfig('pullers: {pullSecrets: [b, a.example]}', 'f').pullers.pullSecrets).toEqual(['b', 'a.example']);
  });

  const lasting = (...keys: string[]): string[] =>
    parseConfig(JSON.stringify({ nodes: { lastingTaints: keys } }), 'f').nodes.lastingTaints;
  test('taints that last are those of kinds of machines, unless others are named', () => {
    const ofMachines = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master', 'nvidia.com/gpu'];
    expect(defaultConfig().nodes.lastingTaints).toEqual(ofMachines);
    expect(lasting('example.com/team', 'dedicated')).toEqual(['example.com/team', 'dedicated']);
  });
  test.each(['node.kubernetes.io/not-ready', 'node.cloudprovider.kubernetes.io/uninitialized', 'a b', ''])(
    'taint "%s" cannot be called lasting',
    (key) => expect(() => lasting(key)).toThrow(/nodes\.lastingTaints/),
  );
  test('snapshotters have no credentials of their own unless the capability says so', () => {
    const [first, second] = parseConfig(
      'capabilities: [{format: nydus, nodeSelector: {a: b}}, {format: nydus, nodeSelector: {a: c}, privateImages: true}]',
      'f',
    ).capabilities;
    expect([first?.privateImages, second?.privateImages]).toEqual([false, true]);
  });

  test('is frozen through and through', () => {
    const config = parseConfig('registries: [{host: a.example.com}]', 'f');
    expect(() => ((config.budgets as { admissionMs: number }).admissionMs = 1)).toThrow(TypeError);
    expect(() => ((config.registries[0] as { host: string }).host = 'b')).toThrow(TypeError);
  });

  test.each([
    ['a field that does not exist', 'mood: On', 'mood'],
    ['a misspelt word', 'mode: Maybe', 'mode: '],
    ['a host with a path', 'registries: [{host: "r.example.com/team"}]', 'registries[0].host: '],
    ['a budget above its limit', 'budgets: {admissionMs: 60000}', 'budgets.admissionMs: '],
    ['a name that no Secret can have', 'pullers: {pullSecrets: [a, Not_Valid]}', 'pullers.pullSecrets[1]: '],
    ['a list where an object belongs', '- mode: On', 'top level: '],
    ['something that is reserved', 'dragonfly: [{name: a}]', 'dragonfly: is not supported yet'],
    ['text that is no YAML', 'mode: [', 'not YAML'],
  ])('refuses %s and says where', (_name, text, want) => {
    expect(() => parseConfig(text, 'harbinger.yaml')).toThrow(ConfigError);
    expect(() => parseConfig(text, 'harbinger.yaml')).toThrow(want);
    expect(() => parseConfig(text, 'harbinger.yaml')).toThrow('harbinger.yaml: ');
  });
});

describe('loadConfig', () => {
  test('no file means defaults', async () => {
    expect(await loadConfig(undefined)).toEqual(defaultConfig());
  });

  test('a file that is not there is an error that names it and the flag', async () => {
    await expect(loadConfig('no/such/file.yaml')).rejects.toThrow(/no\/such\/file\.yaml.*--config/);
  });
});
