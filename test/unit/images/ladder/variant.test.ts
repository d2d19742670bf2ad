import { describe, expect, test } from '@jest/globals';
import type { VariantRule } from '../../../../src/api/kinds/acceleration-policy.js';
import { RegistryError } from '../../../../src/images/registry-port.js';
import { resolveSource } from '../../../../src/images/resolve.js';
import type { ResolvedSource } from '../../../../src/images/resolve.js';
import { findVariant } from '../../../../src/images/ladder/variant.js';
import type { VariantQuestion } from '../../../../src/images/ladder/variant.js';
import { DOCKER, MemoryRegistry, bodyDigest, digestOf, indexBody, manifestBody } from '../support.js';
import type { ManifestParts } from '../support.js';

const SOURCE = 'r.example.com/a/b:1';
const VARIANT = 'r.example.com/a/b:1-esgz';
const RECORD = 'harbinger.dev/source-digest';
const RULE: VariantRule = { format: 'estargz', discover: { tagSuffix: '-esgz' } };

const amd = manifestBody({ name: 'amd' });
const arm = manifestBody({ name: 'arm' });
const single = amd;
const index = indexBody([
  { platform: 'linux/amd64', body: amd },
  { platform: 'linux/arm64', body: arm },
]);

const variantOf = (source: string | undefined, parts: Partial<ManifestParts> = {}): object =>
  manifestBody({
    name: `esgz of ${source}`,
    layers: 2,
    marked: 2,
    ...(source === undefined ? {} : { annotations: { [RECORD]: source } }),
    ...parts,
  });

async function resolved(port: MemoryRegistry, image = SOURCE, platforms?: string[]): Promise<ResolvedSource> {
  const source = await resolveSource(image, port, platforms === undefined ? {} : { platforms });
  if (!source.ok) throw new Error(source.message);
  port.asked.length = 0;
  return source;
}

async function climb(source: object, variant: object | Error | undefined, more: Partial<VariantQuestion> = {}) {
  const port = new MemoryRegistry().set(SOURCE, source).set('r.example.com/a/b:amd', amd).set('r.example.com/a/b:arm', arm);
  if (variant !== undefined) port.set(VARIANT, variant);
  return findVariant({ source: await resolved(port), rules: [RULE], port, ...more });
}

describe('a variant of a single manifest', () => {
  test('that records its source is taken, pinned by digest', async () => {
    const variant = variantOf(bodyDigest(single));
    const answer = await climb(single, variant);
    expect(answer).toMatchObject({
      outcome: 'accelerated',
      image: `r.example.com/a/b@${bodyDigest(variant)}`,
      digest: bodyDigest(variant),
      format: 'estargz',
    });
    expect(answer.evidence.map(({ step, verdict }) => `${step}: ${verdict}`)).toEqual([
      'source: yes',
      'candidate: yes',
      'format: yes',
      'freshness: yes',
      'output: yes',
    ]);
  });

  test('that has its source as OCI subject is taken', async () => {
    expect(await climb(single, variantOf(undefined, { subject: bodyDigest(single) }))).toMatchObject({ outcome: 'accelerated' });
  });

  test.each([
    [
      'without a record of its source is not known to be the same program',
      variantOf(undefined),
      'freshness-unknown',
      'does not record its source',
    ],
    ['of another build is stale', variantOf(digestOf('older')), 'variant-stale', 'convert the image again'],
    ['with a stale subject is stale', variantOf(undefined, { subject: digestOf('older') }), 'variant-stale', 'the OCI subject'],
    [
      'whose own annotation differs from its subject is judged by the annotation',
      variantOf(digestOf('older'), { subject: bodyDigest(single) }),
      'variant-stale',
      RECORD,
    ],
    ['with a record that is no digest is stale', variantOf('latest'), 'variant-stale', 'latest'],
    [
      'without marks on its layers is no eStargz',
      variantOf(bodyDigest(single), { marked: 0 }),
      'variant-unrecognised',
      'no layer has',
    ],
    [
      'with marks on some layers only would be pulled in full',
      variantOf(bodyDigest(single), { marked: 1 }),
      'variant-unrecognised',
      'only 1 of 2 layers',
    ],
    [
      'of Docker media types lost its marks',
      variantOf(bodyDigest(single), { mediaType: DOCKER }),
      'variant-unrecognised',
      'Docker media types',
    ],
    ['without layers is no eStargz', variantOf(bodyDigest(single), { layers: 0 }), 'variant-unrecognised', 'no layers'],
    ['that does not exist is missing', undefined, 'variant-missing', 'no such image'],
  ])('%s', async (_, variant, outcome, message) => {
    const answer = await climb(single, variant);
    expect(answer).toMatchObject({ outcome, message: expect.stringContaining(message) });
    expect(answer.message).toContain(VARIANT);
    expect(answer.image).toBeUndefined();
  });

  test.each([
    ['registry-error', {}],
    ['auth-denied', { outcome: 'auth-denied' as const, status: 401 }],
    ['circuit-open', { outcome: 'circuit-open' as const }],
    ['budget-exceeded', { outcome: 'budget-exceeded' as const }],
  ])('that cannot be asked for ends as %s, which is not the same as missing', async (outcome, details) => {
    const error = new RegistryError('no answer', { outcome: 'registry-error', host: 'r.example.com', ...details });
    const answer = await climb(single, error);
    expect(answer).toMatchObject({ outcome, message: `${VARIANT}: no answer` });
    expect(answer.evidence.at(-1)).toMatchObject({ verdict: 'unknown' });
  });
});

describe('a variant of an index is compared platform by platform', () => {
  const esgzAmd = variantOf(bodyDigest(amd));
  const esgzArm = variantOf(bodyDigest(arm));

  async function climbIndex(
    children: { platform: string; body: object }[],
    more: { platforms?: string[]; annotations?: Record<string, string>; only?: object } = {},
  ) {
    const port = new MemoryRegistry().set(SOURCE, index).set('r.example.com/a/b:amd', amd).set('r.example.com/a/b:arm', arm);
    children.forEach(({ body }, i) => port.set(`r.example.com/a/b:child${i}`, body));
    port.set(VARIANT, more.only ?? indexBody(children, more.annotations));
    const source = await resolved(port, SOURCE, more.platforms);
    return findVariant({ source, rules: [RULE], port, ...(more.platforms === undefined ? {} : { platforms: more.platforms }) });
  }

  test('all of them proven: taken', async () => {
    expect(
      await climbIndex([
        { platform: 'linux/amd64', body: esgzAmd },
        { platform: 'linux/arm64', body: esgzArm },
      ]),
    ).toMatchObject({ outcome: 'accelerated' });
  });

  test('one of them missing: not taken', async () => {
    expect(await climbIndex([{ platform: 'linux/amd64', body: esgzAmd }])).toMatchObject({
      outcome: 'platform-missing',
      message: expect.stringContaining('linux/arm64'),
    });
  });

  test('one of them missing that no node has: taken', async () => {
    expect(await climbIndex([{ platform: 'linux/amd64', body: esgzAmd }], { platforms: ['linux/amd64'] })).toMatchObject({
      outcome: 'accelerated',
    });
  });

  test('one of them stale: not taken', async () => {
    const stale = variantOf(digestOf('older arm'));
    expect(
      await climbIndex([
        { platform: 'linux/amd64', body: esgzAmd },
        { platform: 'linux/arm64', body: stale },
      ]),
    ).toMatchObject({ outcome: 'variant-stale' });
  });

  test('children swapped between platforms are stale, though each records some manifest of the source', async () => {
    expect(
      await climbIndex([
        { platform: 'linux/amd64', body: esgzArm },
        { platform: 'linux/arm64', body: esgzAmd },
      ]),
    ).toMatchObject({ outcome: 'variant-stale' });
  });

  test('children without record are covered by that of the index', async () => {
    const bare = [
      { platform: 'linux/amd64', body: variantOf(undefined) },
      { platform: 'linux/arm64', body: variantOf(undefined, { name: 'other' }) },
    ];
    expect(await climbIndex(bare, { annotations: { [RECORD]: bodyDigest(index) } })).toMatchObject({ outcome: 'accelerated' });
    expect(await climbIndex(bare)).toMatchObject({ outcome: 'freshness-unknown' });
    expect(await climbIndex(bare, { annotations: { [RECORD]: digestOf('older') } })).toMatchObject({ outcome: 'variant-stale' });
  });

  test('children that record the whole index are taken', async () => {
    const whole = variantOf(bodyDigest(index));
    expect(
      await climbIndex([
        { platform: 'linux/amd64', body: whole },
        { platform: 'linux/arm64', body: whole },
      ]),
    ).toMatchObject({ outcome: 'accelerated' });
  });

  test('a single manifest covers the platform that it records, and no other', async () => {
    expect(await climbIndex([], { only: esgzAmd, platforms: ['linux/amd64'] })).toMatchObject({ outcome: 'accelerated' });
    expect(await climbIndex([], { only: esgzAmd, platforms: ['linux/arm64'] })).toMatchObject({ outcome: 'platform-missing' });
    expect(await climbIndex([], { only: esgzAmd })).toMatchObject({ outcome: 'platform-missing' });
  });

  test('a single manifest that records the whole index says its platform in its config', async () => {
    const whole = variantOf(bodyDigest(index));
    const port = new MemoryRegistry().set(SOURCE, index).set('r.example.com/a/b:amd', amd).set(VARIANT, whole);
    const question = { source: await resolved(port, SOURCE, ['linux/amd64']), rules: [RULE], port, platforms: ['linux/amd64'] };
    expect(await findVariant(question)).toMatchObject({ outcome: 'platform-missing' });
    port.setConfig(digestOf(`config esgz of ${bodyDigest(index)}`), 'linux/arm64');
    expect(await findVariant(question)).toMatchObject({ outcome: 'platform-missing' });
    port.setConfig(digestOf(`config esgz of ${bodyDigest(index)}`), 'linux/amd64');
    expect(await findVariant(question)).toMatchObject({ outcome: 'accelerated' });
  });
});

describe('a tag that moves while it is looked at', () => {
  test('of the variant: what was identified by digest is what is written', async () => {
    const good = variantOf(bodyDigest(single));
    const port = new MemoryRegistry().set(SOURCE, single).set(VARIANT, good);
    const source = await resolved(port);
    port.before = (key) => {
      if (key !== VARIANT) port.set(VARIANT, variantOf(digestOf('next')));
    };
    expect(await findVariant({ source, rules: [RULE], port })).toMatchObject({
      outcome: 'accelerated',
      digest: bodyDigest(good),
    });
    expect(port.asked.filter((key) => key === VARIANT)).toHaveLength(1);
  });

  test('of the source: the variant is compared with the digest that was resolved, not with the tag', async () => {
    const next = manifestBody({ name: 'next' });
    const port = new MemoryRegistry().set(SOURCE, single).set(VARIANT, variantOf(bodyDigest(next)));
    const source = await resolved(port);
    port.set(SOURCE, next);
    expect(await findVariant({ source, rules: [RULE], port })).toMatchObject({ outcome: 'variant-stale' });
    expect(port.asked).not.toContain(SOURCE);
  });
});

describe('rules are tried in order', () => {
  const second: VariantRule = { format: 'estargz', discover: { tagSuffix: '-second' } };

  async function two(first: object | undefined, other: object | undefined) {
    const port = new MemoryRegistry().set(SOURCE, single);
    if (first !== undefined) port.set(VARIANT, first);
    if (other !== undefined) port.set(`${SOURCE}-second`, other);
    return findVariant({ source: await resolved(port), rules: [RULE, second], port });
  }

  const good = variantOf(bodyDigest(single));
  const other = variantOf(bodyDigest(single), { layers: 3, marked: 3 });

  test('the first that is proven wins', async () => {
    expect(await two(good, other)).toMatchObject({ digest: bodyDigest(good) });
  });

  test('a later one is taken where the first misses, and the evidence keeps both', async () => {
    const answer = await two(variantOf(digestOf('older')), other);
    expect(answer).toMatchObject({ outcome: 'accelerated', digest: bodyDigest(other) });
    expect(new Set(answer.evidence.map((step) => step.candidate))).toEqual(new Set([undefined, VARIANT, `${SOURCE}-second`]));
  });

  test('where all miss the nearest miss is told', async () => {
    expect(await two(undefined, variantOf(digestOf('older')))).toMatchObject({ outcome: 'variant-stale' });
    expect(await two(variantOf(undefined), undefined)).toMatchObject({ outcome: 'freshness-unknown' });
  });

  test('no rules, no candidate', async () => {
    expect(await climb(single, good, { rules: [] })).toMatchObject({ outcome: 'no-candidate' });
  });

  test.each<[string, VariantRule, string]>([
    ['a tag that would be too long', { format: 'estargz', discover: { tagSuffix: 's'.repeat(128) } }, 'longer than a tag'],
  ])('%s gives no candidate and says so', async (_, rule, message) => {
    const answer = await climb(single, good, { rules: [rule] });
    expect(answer).toMatchObject({ outcome: 'no-candidate', message: expect.stringContaining(message) });
    expect(answer.evidence.at(-1)?.verdict).toBe('skip');
  });

  test('a source by digest has no tag, and none is guessed', async () => {
    const port = new MemoryRegistry().set(SOURCE, single).set('r.example.com/a/b:latest-esgz', good);
    const source = await resolved(port, `r.example.com/a/b@${bodyDigest(single)}`);
    expect(await findVariant({ source, rules: [RULE], port })).toMatchObject({
      outcome: 'no-candidate',
      message: expect.stringContaining('by digest'),
    });
    expect(port.asked).toEqual([]);
  });

  test('a source by tag and digest is looked up by its tag and compared with its digest', async () => {
    const port = new MemoryRegistry()
      .set(SOURCE, manifestBody({ name: 'moved' }))
      .set('r.example.com/a/b:old', single)
      .set(VARIANT, good);
    const source = await resolved(port, `${SOURCE}@${bodyDigest(single)}`);
    expect(await findVariant({ source, rules: [RULE], port })).toMatchObject({
      outcome: 'accelerated',
      digest: bodyDigest(good),
    });
    const moved = await resolved(port, SOURCE);
    expect(await findVariant({ source: moved, rules: [RULE], port })).toMatchObject({ outcome: 'variant-stale' });
  });
});

describe('forms of the answer', () => {
  const variant = variantOf(bodyDigest(single));
  test.each([
    ['Digest', `r.example.com/a/b@${bodyDigest(variant)}`],
    ['TagAndDigest', `${VARIANT}@${bodyDigest(variant)}`],
    ['Tag', VARIANT],
  ] as const)('%s', async (output, image) => {
    expect(await climb(single, variant, { output })).toMatchObject({ image });
  });

  test('a record decides under Probable as under Exact', async () => {
    expect(await climb(single, variant, { freshness: 'Probable' })).toMatchObject({ outcome: 'accelerated', rung: 'record' });
    expect(await climb(single, variantOf(digestOf('older')), { freshness: 'Probable' })).toMatchObject({
      outcome: 'variant-stale',
    });
  });
});

test('a source that is eStargz itself is left alone without looking further', async () => {
  const port = new MemoryRegistry().set(SOURCE, variantOf(undefined));
  const answer = await findVariant({ source: await resolved(port), rules: [RULE], port });
  expect(answer).toMatchObject({ outcome: 'already-accelerated', format: 'estargz' });
  expect(port.asked).toEqual([]);
});
