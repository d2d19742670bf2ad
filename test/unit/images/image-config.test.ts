import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseConfig } from '../../../src/images/image-config.js';
import type { ImageConfig } from '../../../src/images/registry-port.js';
import { configBody } from './bodies.js';
import { digestOf } from './support.js';

function read(body: unknown): ImageConfig {
  const parsed = parseConfig(JSON.stringify(body));
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.config;
}

test('a config gives platform, unpacked layers and traits', () => {
  const config = read(configBody('a'));
  expect(config.platform).toBe('linux/amd64');
  expect(config.diffIds).toEqual([digestOf('diff 0 a'), digestOf('diff 1 a')]);
  expect(Object.keys(config.traits).toSorted()).toEqual(['command', 'created', 'environment', 'history', 'labels']);
});

test('a config of nothing but a platform is one', () => {
  expect(parseConfig('{"os":"linux","architecture":"arm64","variant":"v8"}')).toEqual({
    ok: true,
    config: { platform: 'linux/arm64', diffIds: [], traits: {} },
  });
});

test.each(['', '[]', '{"os":"linux"}', '{"architecture":1,"os":"linux"}'])('%s names no platform', (text) => {
  expect(parseConfig(text)).toEqual({ ok: false, problem: expect.stringContaining('no platform') });
});

describe('two configs have equal traits', () => {
  const same = (a: object, b: object): void => expect(read(b).traits).toEqual(read(a).traits);

  test('if fields are absent, null or empty', () => {
    same(configBody('a'), configBody('a', {}, { Entrypoint: null, Volumes: {}, User: '', StopSignal: undefined }));
  });

  test('if labels stand in another order', () => {
    same(configBody('a'), configBody('a', {}, { Labels: { a: '1', b: '2' } }));
  });

  test.each([
    ['nydus-snapshotter', { created_by: 'Nydus Converter', comment: 'Nydus Bootstrap Layer' }],
    ['accelerated-container-image', { created_by: '/bin/sh -c #(nop)  init overlaybd base layer' }],
    ["BuildKit's exporter", { created_by: 'mount / from exec', comment: 'buildkit.exporter.image.v0' }],
  ])('if the history has an entry of %s more', (_, entry) => {
    same(configBody('a'), configBody('a', { history: [{ created_by: 'COPY a' }, { created_by: 'COPY b' }, entry] }));
  });

  test('if entries of the history carry the time of a conversion', () => {
    const stamped = [{ created_by: 'COPY a', created: '2026-06-01T00:00:00Z' }, { created_by: 'COPY b' }];
    same(configBody('a'), configBody('a', { history: stamped }));
  });
});

describe('two configs differ', () => {
  test.each([
    ['in the command', {}, { Cmd: ['other'] }],
    ['in the order of the environment', {}, { Env: ['BUILD=a', 'PATH=/bin'] }],
    ['in the entrypoint', {}, { Entrypoint: ['sh'] }],
    ['in the user', {}, { User: '0' }],
    ['in the working directory', {}, { WorkingDir: '/' }],
    ['in the volumes', {}, { Volumes: { '/data': {} } }],
    ['in the stop signal', {}, { StopSignal: 'SIGINT' }],
    ['in a label', {}, { Labels: { a: '1', b: '3' } }],
    ['in the time of creation', { created: '2026-05-01T10:00:01Z' }, {}],
    ['in a command of the history', { history: [{ created_by: 'COPY a' }] }, {}],
  ])('%s', (_, more, config) => {
    expect(read(configBody('a', more, config)).traits).not.toEqual(read(configBody('a')).traits);
  });
});

test.each(['1970-01-01T00:00:00Z', '1980-01-01T00:00:01Z', '0001-01-01T00:00:00Z', 'yesterday', 5])(
  'the time of creation %s says nothing',
  (created) => {
    expect(read(configBody('a', { created })).traits.created).toBeUndefined();
  },
);

test.each([
  ['one that is no digest', [digestOf('a'), 'x']],
  ['more than can be stacked', Array.from({ length: 2000 }, () => digestOf('a'))],
  ['none', []],
])('unpacked layers with %s are not compared', (_, ids) => {
  expect(read(configBody('a', { rootfs: { diff_ids: ids } })).diffIds).toEqual([]);
});

test('a config of megabytes is kept as a few hundred bytes', () => {
  const huge = configBody('a', {}, { Env: Array.from({ length: 50_000 }, (_, i) => `V${i}=${'x'.repeat(20)}`) });
  expect(JSON.stringify(read(huge)).length).toBeLessThan(600);
});

test('any JSON gives an answer and nothing is thrown', () => {
  const key = fc.constantFrom(
    'os',
    'architecture',
    'config',
    'Env',
    'Cmd',
    'Labels',
    'rootfs',
    'diff_ids',
    'history',
    'created',
    'comment',
  );
  const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom<unknown>('linux', 'amd64', 1, null, true, digestOf('x')),
      fc.array(tie('tree')),
      fc.dictionary(key, tie('tree')),
    ),
  }));
  fc.assert(
    fc.property(fc.dictionary(key, tree), (value) => {
      expect(typeof parseConfig(JSON.stringify({ os: 'linux', architecture: 'amd64', ...value })).ok).toBe('boolean');
    }),
    { numRuns: 1000 },
  );
});
