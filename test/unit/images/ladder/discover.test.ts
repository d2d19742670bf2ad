import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { VariantRule } from '../../../../src/api/kinds/acceleration-policy.js';
import { accelerationPolicySpec } from '../../../../src/api/kinds/acceleration-policy.js';
import { format, parseReference } from '../../../../src/images/reference.js';
import type { Reference } from '../../../../src/images/reference.js';
import { RegistryError } from '../../../../src/images/registry-port.js';
import { expandTemplate } from '../../../../src/images/ladder/template.js';
import {
  CHUNKED,
  SOCI_V1,
  chunkedImage,
  estargzImage,
  image,
  mergedIndex,
  nydusImage,
  overlaybdImage,
  plain,
} from '../bodies.js';
import { REPOSITORY, SOURCE, climb, ground } from './climb.js';
import { bodyDigest, digestOf, indexBody } from '../support.js';
import type { MemoryRegistry } from '../support.js';

const single = plain('source');
const S = bodyDigest(single);
const able = { obstacle: () => undefined };
const referrers = (name: VariantRule['format']): VariantRule => ({ format: name, discover: { referrers: true } });

function reference(text: string): Reference {
  const parsed = parseReference(text);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.reference;
}

describe('by repository template', () => {
  test.each([
    ['the tag of the source', 'lazy/{repository}', SOURCE, 'r.example.com/lazy/a/b:1'],
    ['another tag', 'lazy/{repository}:{tag}-nydus', SOURCE, 'r.example.com/lazy/a/b:1-nydus'],
    ['one repository for all', 'lazy:{tag}', SOURCE, 'r.example.com/lazy:1'],
    ['the tag in the path', '{repository}/{tag}:nydus', SOURCE, 'r.example.com/a/b/1:nydus'],
    ['a fixed tag for an image by digest', 'lazy/{repository}:fixed', `${REPOSITORY}@${S}`, 'r.example.com/lazy/a/b:fixed'],
    ['official images of Docker Hub', 'lazy/{repository}', 'nginx', 'docker.io/lazy/library/nginx:latest'],
    [
      'a path that looks like a host',
      'evil.example.com/{repository}',
      'nginx',
      'docker.io/evil.example.com/library/nginx:latest',
    ],
  ])('%s', (_, template, source, expected) => {
    const found = expandTemplate(reference(source), template);
    expect(typeof found === 'string' ? found : format(found)).toBe(expected);
  });

  test.each([
    ['an image by digest has no tag', 'lazy/{repository}', `${REPOSITORY}@${S}`, 'named by digest'],
    ['a tag that is no path', '{tag}', `${REPOSITORY}:UPPER`, 'is not an image'],
    ['a tag that is too long', '{repository}:{tag}{tag}', `${REPOSITORY}:${'t'.repeat(100)}`, '200 characters'],
    ['the source itself', '{repository}', SOURCE, 'the source itself'],
    ['a path that starts with a slash', '/{repository}', SOURCE, 'is not an image'],
    ['a host with a port', 'evil.example.com:443/{repository}', SOURCE, 'not a repository template'],
    ['a digest', `{repository}@${S}`, SOURCE, 'not a repository template'],
    ['an unknown placeholder', '{host}/{repository}', SOURCE, 'not a repository template'],
  ])('%s gives none', (_, template, source, why) => {
    expect(expandTemplate(reference(source), template)).toEqual(expect.stringContaining(why));
  });

  test('whatever is written, the registry is that of the source', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '{repository}',
        '{tag}',
        '/',
        '..',
        ':',
        '@',
        'evil.example.com',
        ':443/',
        '//',
        'a',
        '%2f',
        '\n',
        '{',
        '}',
        '[::1]',
      ),
      fc.string({ maxLength: 5 }),
    );
    const source = fc.constantFrom(
      SOURCE,
      'nginx',
      'localhost:5000/a:1',
      '[::1]:5000/a:1',
      'MyHost/a:UP',
      `${REPOSITORY}:1@${S}`,
    );
    let expanded = 0;
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), source, (pieces, text) => {
        const from = reference(text);
        const found = expandTemplate(from, pieces.join(''));
        if (typeof found === 'string') return;
        expanded++;
        expect(found.registry).toBe(from.registry);
        expect(parseReference(format(found))).toEqual({ ok: true, reference: found });
        expect(found.digest).toBeUndefined();
      }),
      { numRuns: 3000 },
    );
    expect(expanded).toBeGreaterThan(50);
  });

  test('finds and pins the variant there', async () => {
    const variant = nydusImage('n', S);
    const port = ground({ source: single }).set('r.example.com/lazy/a/b:1', variant);
    const rule: VariantRule = { format: 'nydus', discover: { repositoryTemplate: 'lazy/{repository}' } };
    expect(await climb(port, rule, able)).toMatchObject({
      outcome: 'accelerated',
      image: `r.example.com/lazy/a/b@${bodyDigest(variant)}`,
    });
  });
});

describe('by index', () => {
  const config = digestOf('config source');
  const chunked = chunkedImage('z', [CHUNKED.containers, CHUNKED.containers], { config });
  const rule: VariantRule = { format: 'zstdchunked', discover: { index: true } };
  const index = indexBody([
    { platform: 'linux/amd64', body: single },
    { platform: 'linux/amd64', body: chunked, extra: { annotations: { 'io.github.containers.compression.zstd': 'true' } } },
    { platform: 'linux/arm64', body: plain('arm') },
  ]);
  const port = (): MemoryRegistry => ground({ source: index, children: [single, chunked, plain('arm')] });
  const amd = { platforms: ['linux/amd64'] };

  test('the second image of the platform is found and pinned by its own digest', async () => {
    expect(await climb(port(), rule, amd)).toMatchObject({
      outcome: 'accelerated',
      image: `${REPOSITORY}@${bodyDigest(chunked)}`,
      rung: 'structure',
    });
  });

  test('also for an image that is named by digest', async () => {
    const answer = await climb(port(), rule, { ...amd, image: `${REPOSITORY}@${bodyDigest(index)}`, output: 'Tag' });
    expect(answer).toMatchObject({ outcome: 'accelerated', image: `${REPOSITORY}@${bodyDigest(chunked)}` });
  });

  test('a child serves one platform only', async () => {
    expect(await climb(port(), rule, { platforms: ['linux/amd64', 'linux/arm64'] })).toMatchObject({ outcome: 'no-candidate' });
    expect(await climb(port(), rule)).toMatchObject({ outcome: 'no-candidate' });
  });

  test.each<[string, VariantRule, object, string]>([
    ['an image without index', rule, single, 'no-candidate'],
    ['no second image', rule, indexBody([{ platform: 'linux/amd64', body: single }]), 'variant-missing'],
    ['another format', { ...rule, format: 'estargz' }, index, 'variant-unrecognised'],
    ['Nydus, whose child alone plain nodes cannot run', { ...rule, format: 'nydus' }, index, 'no-candidate'],
  ])('%s gives none', async (_, asked, source, outcome) => {
    const registry = ground({ source, children: [single, chunked] });
    expect(await climb(registry, asked, { ...amd, ...able })).toMatchObject({ outcome });
  });

  test('an OverlayBD child with its layers marked is found, and left where a node cannot run it', async () => {
    const child = overlaybdImage('o', { subject: S });
    const artifactType = 'application/vnd.containerd.overlaybd.native.v1+json';
    const source = indexBody([
      { platform: 'linux/amd64', body: single },
      { platform: 'linux/amd64', body: child, extra: { artifactType } },
    ]);
    const asked: VariantRule = { format: 'overlaybd', discover: { index: true } };
    const registry = (): MemoryRegistry => ground({ source, children: [single, child] });
    expect(await climb(registry(), asked, { ...amd, obstacle: () => 'node n1 has no handler' })).toMatchObject({
      outcome: 'node-incapable',
    });
    expect(await climb(registry(), asked, { ...amd, ...able })).toMatchObject({
      outcome: 'accelerated',
      digest: bodyDigest(child),
    });
  });
});

describe('by referrers', () => {
  const variant = nydusImage('n', undefined, { subject: S });

  test.each(['api', 'fallback-tag'] as const)('Nydus with a subject has no type of its own and is found (%s)', async (how) => {
    const port = ground({ source: single }).add(REPOSITORY, variant);
    const found = await climb(port, referrers('nydus'), able);
    expect(found).toMatchObject({ outcome: 'accelerated', image: `${REPOSITORY}@${bodyDigest(variant)}`, rung: 'record' });
    port.referrersAnswer = { how };
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'accelerated' });
  });

  test('an image that is named by digest alone has referrers too', async () => {
    const port = ground({ source: single }).add(REPOSITORY, variant);
    expect(await climb(port, referrers('nydus'), { ...able, image: `${REPOSITORY}@${S}` })).toMatchObject({
      outcome: 'accelerated',
    });
  });

  test('signatures and the like are not read, other images are and are refused', async () => {
    const signature = image({
      name: 's',
      layers: [{}],
      subject: S,
      artifactType: 'application/vnd.dev.cosign.artifact.sig.v1+json',
    });
    const port = ground({ source: single }).add(REPOSITORY, signature);
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({
      outcome: 'variant-missing',
      message: expect.stringContaining('none of the 1'),
    });
    expect(port.asked).not.toContain(`${REPOSITORY}@${bodyDigest(signature)}`);
    port.add(REPOSITORY, estargzImage('e', 2, { subject: S }));
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'variant-unrecognised' });
  });

  test('those of the type of the format are read first, and a hostile number is cut', async () => {
    const good = overlaybdImage('o', { subject: S, artifactType: 'application/vnd.containerd.overlaybd.native.v1+json' });
    const noise = Array.from({ length: 200 }, (_, i) => estargzImage(`noise ${i}`, 2, { subject: S }));
    const port = ground({ source: single }).add(REPOSITORY, ...noise, good);
    expect(await climb(port, referrers('overlaybd'), able)).toMatchObject({ outcome: 'accelerated', digest: bodyDigest(good) });
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'variant-unrecognised' });
    expect(port.asked.length).toBeLessThan(12);
  });

  test('a registry that cannot tell is no candidate, one that fails is told', async () => {
    const port = ground({ source: single });
    port.referrersAnswer = { how: 'unsupported', detail: 'it answered 406' };
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({
      outcome: 'no-candidate',
      message: expect.stringContaining('406'),
    });
    port.referrersAnswer = new RegistryError('denied', { outcome: 'auth-denied', host: 'r.example.com' });
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'auth-denied' });
  });

  test('of one platform serve Pods of that platform; those of the index serve all', async () => {
    const arm = plain('arm');
    const source = indexBody([
      { platform: 'linux/amd64', body: single },
      { platform: 'linux/arm64', body: arm },
    ]);
    const port = ground({ source, children: [single, arm] }).add(REPOSITORY, variant);
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'variant-missing' });
    expect(await climb(port, referrers('nydus'), { ...able, platforms: ['linux/amd64'] })).toMatchObject({
      outcome: 'accelerated',
    });
    const both = [nydusImage('na', S), nydusImage('nr', bodyDigest(arm))];
    const whole = {
      ...indexBody(both.map((body, i) => ({ platform: i === 0 ? 'linux/amd64' : 'linux/arm64', body }))),
      subject: { digest: bodyDigest(source) },
    };
    port.add(REPOSITORY, ...both, whole);
    expect(await climb(port, referrers('nydus'), able)).toMatchObject({ outcome: 'accelerated', digest: bodyDigest(whole) });
  });

  test('a SOCI index of the first generation leaves nothing to write', async () => {
    const port = ground({ source: single });
    expect(await climb(port, referrers('soci'))).toMatchObject({
      outcome: 'no-candidate',
      message: expect.stringContaining('no SOCI index'),
    });
    port.add(REPOSITORY, image({ name: 'v1', layers: [{}], subject: S, artifactType: SOCI_V1 }));
    const answer = await climb(port, referrers('soci'));
    expect(answer).toMatchObject({ outcome: 'no-candidate', message: expect.stringContaining('nothing to write') });
    expect(answer.image).toBeUndefined();
  });
});

describe('a policy is refused', () => {
  const spec = (variant: unknown): unknown => ({ variants: [variant] });
  const problem = (variant: unknown): string =>
    accelerationPolicySpec
      .safeParse(spec(variant))
      .error?.issues.map(({ message }) => message)
      .join('; ') ?? '';

  test.each([
    ['with two ways of discovery', { format: 'zstd', discover: { tagSuffix: '-z', index: true } }, 'exactly one'],
    ['with none', { format: 'zstd', discover: {} }, 'exactly one'],
    ['that looks for Nydus in the index of the source', { format: 'nydus', discover: { index: true } }, 'needs no rule'],
    ['that looks for SOCI there', { format: 'soci', discover: { index: true } }, 'needs no rule'],
    ['with a host in the template', { format: 'nydus', discover: { repositoryTemplate: 'host:1/{repository}' } }, 'pattern'],
  ])('%s', (_, variant, message) => {
    expect(problem(variant)).toContain(message);
  });

  test('not with what makes sense', () => {
    expect(problem({ format: 'zstd', discover: { index: true } })).toBe('');
    expect(problem({ format: 'nydus', discover: { repositoryTemplate: 'lazy/{repository}:{tag}-nydus' } })).toBe('');
  });
});

test('a merged index under a template is written as a whole', async () => {
  const nydus = nydusImage('n', S);
  const source = indexBody([{ platform: 'linux/amd64', body: single }]);
  const merged = mergedIndex([{ platform: 'linux/amd64', plain: single, nydus }], 'os.features');
  const port = ground({ source, children: [single] })
    .add('r.example.com/lazy/a/b', single, nydus)
    .set('r.example.com/lazy/a/b:1', merged);
  const rule: VariantRule = { format: 'nydus', discover: { repositoryTemplate: 'lazy/{repository}' } };
  expect(await climb(port, rule)).toMatchObject({
    outcome: 'accelerated',
    image: `r.example.com/lazy/a/b@${bodyDigest(merged)}`,
  });
});
