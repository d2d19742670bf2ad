import { describe, expect, test } from '@jest/globals';
import { RegistryError } from '../../../../src/images/registry-port.js';
import { sourceRecord, weakest } from '../../../../src/images/ladder/freshness.js';
import {
  HARBOR_SOURCE,
  NYDUS_SOURCE,
  configBody,
  estargzImage,
  mergedIndex,
  nydusImage,
  overlaybdImage,
  plain,
  recordArtifact,
} from '../bodies.js';
import { REPOSITORY, SOURCE, byTag, climb, ground } from './climb.js';
import { bodyDigest, digestOf, indexBody } from '../support.js';
import type { MemoryRegistry } from '../support.js';

const single = plain('source');
const S = bodyDigest(single);
const older = digestOf('older');
const RECORD = 'harbinger.dev/source-digest';
const variant = estargzImage('e');
const converted = configBody('a', { rootfs: { diff_ids: [older, older] } });

/** A source and an eStargz variant without record; `theirs` is the config of the variant. */
function unrecorded(theirs: object = converted, body: object = variant): MemoryRegistry {
  return ground({ source: single, variant: body })
    .setConfig(digestOf('config source'), configBody('a'))
    .setConfig(digestOf('config e'), theirs);
}

describe('records are believed in this order', () => {
  const all = { [RECORD]: 'a', [NYDUS_SOURCE]: 'b', [HARBOR_SOURCE]: 'c' };
  test.each([
    ['our own annotation', [{ annotations: all, subject: { digest: 'd' } }], 'a'],
    ['that of the converter', [{ annotations: { [NYDUS_SOURCE]: 'b', [HARBOR_SOURCE]: 'c' } }], 'b'],
    ['the key of Harbor', [{ annotations: { [HARBOR_SOURCE]: 'c' }, subject: { digest: 'd' } }], 'c'],
    ['the OCI subject', [{ annotations: {}, subject: { digest: 'd' } }], 'd'],
    [
      'the image before its entry and its index',
      [{ annotations: {} }, { annotations: { [NYDUS_SOURCE]: 'b' } }, { annotations: all }],
      'b',
    ],
    ['none', [{ annotations: { other: 'x' } }, undefined], undefined],
  ])('%s', (_, carriers, digest) => {
    expect(sourceRecord(carriers, [NYDUS_SOURCE])?.digest).toBe(digest);
  });

  test('a key of one converter says nothing about the format of another', async () => {
    const port = unrecorded(converted, estargzImage('e', 2, { annotations: { [NYDUS_SOURCE]: S } }));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'freshness-unknown' });
  });

  test('a variant is as sure as its least sure platform', () => {
    expect(weakest(['record', 'traits', 'structure'])).toBe('traits');
    expect(weakest(['record', 'record'])).toBe('record');
  });
});

describe('the record that harbinger record pushes', () => {
  test('proves a variant that has none of its own', async () => {
    const port = unrecorded().add(REPOSITORY, recordArtifact(variant, S));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test.each([
    ['of another source makes it stale', recordArtifact(variant, older), 'variant-stale'],
    ['that is about another image counts for nothing', recordArtifact(variant, S, older), 'freshness-unknown'],
    ['without a digest counts for nothing', plain('no record'), 'freshness-unknown'],
  ])('%s', async (_, artifact, outcome) => {
    expect(await climb(unrecorded().add(REPOSITORY, artifact), byTag('estargz'))).toMatchObject({ outcome });
  });

  test('is believed if one of several names the source', async () => {
    const port = unrecorded().add(REPOSITORY, recordArtifact(variant, older), recordArtifact(variant, S));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated' });
  });

  test('is found behind five of other sources and one that was withdrawn', async () => {
    const artifactType = 'application/vnd.harbinger.source.v1+json';
    const listed = (digest: string, source: string): object => ({
      digest,
      mediaType: '',
      size: 1,
      artifactType,
      annotations: { [RECORD]: source },
    });
    const others = Array.from({ length: 5 }, (_, i) => recordArtifact(variant, digestOf(`other ${i}`)));
    const port = unrecorded().add(REPOSITORY, ...others, recordArtifact(variant, S));
    port.referrersAnswer = {
      referrers: [
        listed(digestOf('withdrawn'), S),
        ...others.map((o, i) => listed(bodyDigest(o), digestOf(`other ${i}`))),
        listed(bodyDigest(recordArtifact(variant, S)), S),
      ] as never,
    };
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test('whose subject a registry misreports counts for nothing', async () => {
    const port = unrecorded();
    const foreign = recordArtifact(variant, S, older);
    port.add(REPOSITORY, foreign).referrersAnswer = {
      referrers: [
        {
          digest: bodyDigest(foreign),
          mediaType: '',
          size: 1,
          annotations: {},
          artifactType: 'application/vnd.harbinger.source.v1+json',
        },
      ],
    };
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'freshness-unknown' });
  });

  test('covers an index as a whole', async () => {
    const source = indexBody([{ platform: 'linux/amd64', body: single }]);
    const whole = indexBody([{ platform: 'linux/amd64', body: variant }]);
    const port = ground({ source, children: [single, variant], variant: whole })
      .setConfig(digestOf('config source'), configBody('a'))
      .setConfig(digestOf('config e'), converted)
      .add(REPOSITORY, recordArtifact(whole, bodyDigest(source)));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test('of a whole index says nothing of a variant that is one manifest', async () => {
    const arm = plain('arm');
    const source = indexBody([
      { platform: 'linux/amd64', body: single },
      { platform: 'linux/arm64', body: arm },
    ]);
    const port = (recorded: string): MemoryRegistry =>
      ground({ source, children: [single, arm], variant }).add(REPOSITORY, recordArtifact(variant, recorded));
    const amd = { platforms: ['linux/amd64'] };
    expect(await climb(port(bodyDigest(source)), byTag('estargz'), { platforms: ['linux/arm64'] })).toMatchObject({
      outcome: 'freshness-unknown',
    });
    expect(await climb(port(bodyDigest(source)), byTag('estargz'), amd)).toMatchObject({ outcome: 'freshness-unknown' });
    expect(await climb(port(S), byTag('estargz'), amd)).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test('is not asked for where the variant has a record', async () => {
    const port = unrecorded(converted, estargzImage('e', 2, { subject: S }));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record' });
    expect(port.asked.filter((key) => key.startsWith('referrers') || key.startsWith('config'))).toEqual([]);
  });

  test('of a hostile registry that lists thousands is read for a few only', async () => {
    const port = unrecorded();
    port.referrersAnswer = {
      referrers: Array.from({ length: 5000 }, (_, i) => ({
        digest: digestOf(`record ${i}`),
        mediaType: '',
        size: 1,
        annotations: {},
        artifactType: 'application/vnd.harbinger.source.v1+json',
      })),
    };
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'freshness-unknown' });
    expect(port.asked.length).toBeLessThan(12);
  });
});

describe('what is only probable counts where the policy allows it', () => {
  const probable = { freshness: 'Probable' as const };

  test.each([
    ['Probable', probable, 'accelerated'],
    ['Exact', {}, 'freshness-unknown'],
  ])('%s', async (_, more, outcome) => {
    expect(await climb(unrecorded(), byTag('estargz'), more)).toMatchObject({ outcome });
  });

  test('the answer says so', async () => {
    const answer = await climb(unrecorded(), byTag('estargz'), probable);
    expect(answer).toMatchObject({ rung: 'traits', message: expect.stringContaining('probable') });
  });

  test.each<[string, object, string]>([
    ['time of creation', { created: '2026-05-02T10:00:00Z' }, 'created'],
    ['history', { history: [{ created_by: 'COPY c' }, { created_by: 'COPY b' }] }, 'history'],
    ['command', { config: { Cmd: ['other'] } }, 'command'],
  ])('another %s is another program', async (_, change, trait) => {
    const answer = await climb(unrecorded({ ...converted, ...change }), byTag('estargz'), probable);
    expect(answer).toMatchObject({ outcome: 'variant-stale', message: expect.stringContaining(trait) });
  });

  test('another number of layers is another program', async () => {
    const port = unrecorded(converted, estargzImage('e', 3, { count: 3 }));
    expect(await climb(port, byTag('estargz'), probable)).toMatchObject({
      outcome: 'variant-stale',
      message: expect.stringContaining('3 layers'),
    });
  });

  test('a fixed time of creation, as of reproducible builds, proves nothing', async () => {
    const fixed = { created: '1970-01-01T00:00:00Z' };
    const port = unrecorded({ ...converted, ...fixed }).setConfig(digestOf('config source'), configBody('a', fixed));
    expect(await climb(port, byTag('estargz'), probable)).toMatchObject({
      outcome: 'freshness-unknown',
      message: expect.stringContaining('fixed time'),
    });
  });

  test('OverlayBD may have its base layer more, and only that', async () => {
    const more = { ...probable, obstacle: () => undefined };
    const withBase = unrecorded(converted, overlaybdImage('e', { count: 3 }));
    expect(await climb(withBase, byTag('overlaybd'), more)).toMatchObject({ outcome: 'accelerated', rung: 'traits' });
    const withTwo = unrecorded(converted, overlaybdImage('e', { count: 4 }));
    expect(await climb(withTwo, byTag('overlaybd'), more)).toMatchObject({ outcome: 'variant-stale' });
  });

  test('Nydus leaves too little to compare', async () => {
    const port = unrecorded(converted, nydusImage('e'));
    expect(await climb(port, byTag('nydus'), { ...probable, obstacle: () => undefined })).toMatchObject({
      outcome: 'freshness-unknown',
    });
  });
});

describe('a registry that fails on the way', () => {
  const failing = new RegistryError('the blobs are out of reach', { outcome: 'registry-error', host: 'r.example.com' });

  test('is told where nothing else decides', async () => {
    const port = unrecorded().setConfig(digestOf('config e'), failing);
    expect(await climb(port, byTag('estargz'))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining('out of reach'),
    });
  });

  test('does not matter where a record decides', async () => {
    const port = unrecorded().setConfig(digestOf('config e'), failing).add(REPOSITORY, recordArtifact(variant, S));
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test('at the referrers does not matter where the contents decide', async () => {
    const port = unrecorded(configBody('a'));
    port.referrersAnswer = failing;
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'structure' });
  });

  test('that has lost the config knows nothing of the source', async () => {
    const port = ground({ source: single, variant });
    expect(await climb(port, byTag('estargz'))).toMatchObject({
      outcome: 'freshness-unknown',
      message: expect.stringContaining('has no the blob'),
    });
  });
});

describe('what a tag answers has to be there under its digest', () => {
  test('a variant that is not is missing; one that is, is taken', async () => {
    const good = estargzImage('e', 2, { subject: S });
    expect(await climb(ground({ source: single, variant: good }), byTag('estargz'))).toMatchObject({ outcome: 'accelerated' });
    const port = ground({ source: single, variant: good }).lose(REPOSITORY, good);
    expect(await climb(port, byTag('estargz'))).toMatchObject({
      outcome: 'variant-missing',
      message: expect.stringContaining('nothing under its digest'),
    });
    expect(port.asked.filter((key) => key === `${REPOSITORY}@${bodyDigest(good)}`)).toHaveLength(1);
  });
});

test('a rule whose find the nodes cannot run gives way to the next', async () => {
  const portable = estargzImage('p', 2, { subject: S });
  const port = ground({ source: single, variant: nydusImage('n', S) }).set(`${SOURCE}-esgz`, portable);
  const rules = [byTag('nydus'), { format: 'estargz' as const, discover: { tagSuffix: '-esgz' } }];
  const answer = await climb(port, rules, { obstacle: (format) => `node n3 does not run ${format}` });
  expect(answer).toMatchObject({ outcome: 'accelerated', format: 'estargz', digest: bodyDigest(portable) });
  expect(answer.evidence).toContainEqual(expect.objectContaining({ step: 'nodes', verdict: 'no' }));
});

test('the incapable node is told where no other rule is nearer', async () => {
  const port = ground({ source: single, variant: nydusImage('n', S) });
  const rules = [byTag('nydus'), { format: 'estargz' as const, discover: { tagSuffix: '-esgz' } }];
  expect(await climb(port, rules, { obstacle: () => 'node n3 does not run nydus' })).toMatchObject({ outcome: 'node-incapable' });
});

describe('platforms are proven one by one', () => {
  const amd = plain('amd');
  const arm = plain('arm');
  const source = indexBody([
    { platform: 'linux/amd64', body: amd },
    { platform: 'linux/arm64', body: arm },
  ]);

  test('by different rungs: the answer tells the weakest, the evidence each, in order', async () => {
    const esgzAmd = estargzImage('ea', 2, { subject: bodyDigest(amd) });
    const esgzArm = estargzImage('er');
    const both = indexBody([
      { platform: 'linux/amd64', body: esgzAmd },
      { platform: 'linux/arm64', body: esgzArm },
    ]);
    const port = ground({ source, children: [amd, arm, esgzAmd, esgzArm], variant: both })
      .setConfig(digestOf('config arm'), configBody('a'))
      .setConfig(digestOf('config er'), configBody('a'));
    const answer = await climb(port, byTag('estargz'));
    expect(answer).toMatchObject({ outcome: 'accelerated', rung: 'structure' });
    const told = answer.evidence.filter(({ step }) => step === 'freshness').map(({ detail }) => detail.split(':')[0]);
    expect(told).toEqual(['exact by record', 'exact by structure']);
  });

  test('a copy of one architecture serves Pods of that architecture only', async () => {
    const one = estargzImage('ea', 2, { subject: bodyDigest(amd) });
    const port = (): MemoryRegistry => ground({ source, children: [amd, arm], variant: one });
    expect(await climb(port(), byTag('estargz'))).toMatchObject({ outcome: 'platform-missing' });
    expect(await climb(port(), byTag('estargz'), { platforms: ['linux/arm64'] })).toMatchObject({ outcome: 'platform-missing' });
    expect(await climb(port(), byTag('estargz'), { platforms: ['linux/amd64'] })).toMatchObject({ outcome: 'accelerated' });
  });

  test('time is told for each step where it is measured', async () => {
    let at = 0;
    const now = (): number => (at += 1.26);
    const one = mergedIndex([{ platform: 'linux/amd64', plain: amd, nydus: nydusImage('na', bodyDigest(amd)) }], 'artifactType');
    const children = [amd, arm, nydusImage('na', bodyDigest(amd))];
    const timed = await climb(ground({ source, children, variant: one }), byTag('nydus'), { now, platforms: ['linux/amd64'] });
    expect(timed.outcome).toBe('accelerated');
    expect(timed.evidence.slice(1).every(({ ms }) => ms !== undefined && ms > 0)).toBe(true);
    const untimed = await climb(ground({ source, children, variant: one }), byTag('nydus'), { platforms: ['linux/amd64'] });
    expect(untimed.evidence.some(({ ms }) => ms !== undefined)).toBe(false);
  });
});

describe('hostile registries', () => {
  test('a record that is no digest is told in a few clean characters', async () => {
    const evil = `${'x'.repeat(100_000)}:\u001b[31m`;
    const port = unrecorded(converted, estargzImage('e', 2, { annotations: { [RECORD]: evil } }));
    const answer = await climb(port, byTag('estargz'));
    expect(answer.outcome).toBe('variant-stale');
    expect(answer.message.length).toBeLessThan(400);
    const escape = unrecorded(converted, estargzImage('e', 2, { annotations: { [RECORD]: '\u001b[31m\nred' } }));
    expect((await climb(escape, byTag('estargz'))).message).toMatch(/^[\x20-\x7e]*$/);
  });

  test('an index of thousands of platforms is not followed', async () => {
    const children = Array.from({ length: 5000 }, (_, i) => ({ platform: `linux/cpu${i}`, body: single }));
    const port = ground({ source: indexBody(children), children: [single], variant: indexBody(children) });
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'platform-missing' });
    expect(port.asked.length).toBeLessThan(5);
  });

  test('a platform listed twice is compared once, by what runtimes pick', async () => {
    const second = plain('second');
    const source = indexBody([
      { platform: 'linux/amd64', body: single },
      { platform: 'linux/amd64', body: second },
    ]);
    const port = ground({ source, children: [single, second], variant: estargzImage('e', 2, { subject: S }) });
    expect(await climb(port, byTag('estargz'))).toMatchObject({ outcome: 'accelerated' });
  });
});

describe('a source with one image only', () => {
  const beside = (platform: 'amd64' | 'arm64'): MemoryRegistry => {
    const port = unrecorded(configBody('a', { architecture: platform, rootfs: { diff_ids: [older, older] } }));
    return port.add(REPOSITORY, recordArtifact(variant, S));
  };

  test('a record beside a variant for another platform proves nothing', async () => {
    expect(await climb(beside('arm64'), byTag('estargz'))).toMatchObject({ outcome: 'platform-missing' });
  });

  test('the same record proves a variant for its own platform', async () => {
    expect(await climb(beside('amd64'), byTag('estargz'))).toMatchObject({ outcome: 'accelerated', rung: 'record-artifact' });
  });

  test('equal traits do not make a program of one platform that of another', async () => {
    const foreign = unrecorded(configBody('a', { architecture: 'arm64', rootfs: { diff_ids: [older, older] } }));
    expect(await climb(foreign, byTag('estargz'), { freshness: 'Probable' })).toMatchObject({ outcome: 'platform-missing' });
    expect(await climb(unrecorded(), byTag('estargz'), { freshness: 'Probable' })).toMatchObject({ outcome: 'accelerated' });
  });
});
