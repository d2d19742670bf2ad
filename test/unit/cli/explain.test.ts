import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { renderTree } from '../../../src/cli/explain-text.js';
import { readPolicies } from '../../../src/cli/policies.js';
import { RecordedRegistry } from '../../../src/cli/recorded-registry.js';
import { parseReference } from '../../../src/images/reference.js';
import type { RegistryPort } from '../../../src/images/registry-port.js';
import { explain } from './support.js';
import { MemoryRegistry, digestOf, indexBody, manifestBody } from '../images/support.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'explain-'));
});
afterAll(() => rm(directory, { recursive: true }));

async function file(name: string, text: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, text);
  return path;
}

const examples = (image: string, more: { namespaceLabels?: Record<string, string>; platforms?: string[] } = {}) =>
  Promise.all([RecordedRegistry.read('examples/registry'), readPolicies(['examples/policy.yaml'])]).then(([port, policies]) =>
    explain({ image, policies, port, namespaceLabels: {}, ...more }),
  );

describe('the examples end as their README says', () => {
  test.each([
    ['registry.example.com/ml/train:2.3', 'accelerated'],
    ['registry.example.com/ml/train:2.4', 'variant-stale'],
    ['registry.example.com/ml/eval:1.8', 'freshness-unknown'],
    ['registry.example.com/ml/notebook:5', 'variant-missing'],
    ['registry.example.com/ml/secret:1', 'auth-denied'],
    ['registry.example.com/ml/none:1', 'registry-error'],
    ['busybox', 'no-policy'],
    ['registry.example.com/ML/train:2.3', 'unparsable'],
  ])('%s: %s', async (image, outcome) => {
    const { decision, steps } = await examples(image);
    expect(decision.outcome).toBe(outcome);
    expect(decision.image === image).toBe(outcome !== 'accelerated');
    expect(steps.length).toBeGreaterThan(0);
  });

  test('for a platform that the image lacks', async () => {
    expect((await examples('registry.example.com/ml/train:2.3', { platforms: ['linux/arm64'] })).decision.outcome).toBe(
      'platform-missing',
    );
  });
});

describe('the tree', () => {
  test('shows each step once, those of a candidate below it, and the result last', async () => {
    const text = renderTree(await examples('registry.example.com/ml/train:2.4'));
    expect(text.split('\n').map((line) => line.replace(/sha256:\w+/g, 'sha256:…').slice(0, 90))).toEqual([
      'registry.example.com/ml/train:2.4',
      '├─ ✓ reference  registry.example.com/ml/train:2.4',
      '├─ ✓ policy     training (priority 10, Enforce)',
      '├─ ✓ source     registry.example.com/ml/train:2.4 is sha256:… (linux/amd64 sha256:…)',
      '├─ ✓ size       11 GB compressed, for one platform',
      '├─ registry.example.com/ml/train:2.4-esgz',
      '│  ├─ ✓ candidate  found, sha256:…, index',
      '│  ├─ ✓ format     estargz for linux/amd64: all 6 layers have a table of contents',
      '│  └─ ✗ freshness  annotation harbinger.dev/source-digest is sha256:…, the source is sha25',
      '└─ => variant-stale: the image is left alone',
      '',
    ]);
  });

  test('says what the Pod gets', async () => {
    expect(renderTree(await examples('registry.example.com/ml/train:2.3'))).toMatch(
      /=> accelerated: the Pod gets registry\.example\.com\/ml\/train@sha256:[0-9a-f]{64}\n {3}└─ estargz variant made from/,
    );
  });

  test('tells the message of an audit, which no step holds', async () => {
    const policies = await readPolicies([await file('audit.yaml', AUDIT)]);
    const port = await RecordedRegistry.read('examples/registry');
    const explanation = await explain({ image: 'registry.example.com/ml/train:2.3', policies, port, namespaceLabels: {} });
    expect(explanation.decision.outcome).toBe('skipped-audit');
    expect(renderTree(explanation)).toMatch(
      /=> skipped-audit: the image is left alone\n.*mode Audit; otherwise the image would be/,
    );
  });
});

const policy = (name: string, more = ''): string =>
  `kind: AccelerationPolicy\nmetadata: {name: ${name}}\nspec:\n  ${more}\n  variants: [{format: estargz, discover: {tagSuffix: -esgz}}]\n`;
const AUDIT = policy('audit', 'mode: Audit');

describe('policies', () => {
  test('of several documents, files and lists are asked by priority; other kinds are passed over', async () => {
    const one = await file(
      'one.yaml',
      `kind: ConfigMap\n---\n${policy('low', 'priority: 1')}---\n${policy('high', 'priority: 9')}`,
    );
    const two = await file(
      'two.yaml',
      `kind: List\nitems:\n- kind: AccelerationPolicy\n  metadata: {name: mid}\n  spec: {priority: 5, variants: [{format: estargz, discover: {tagSuffix: -x}}]}\n`,
    );
    expect((await readPolicies([one, two])).map(({ name }) => name)).toEqual(['high', 'mid', 'low']);
  });

  test.each([
    [
      'a bad selector',
      policy('bad', 'match: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}'),
      /bad is ignored/,
    ],
    ['no variants', 'kind: AccelerationPolicy\nmetadata: {name: bad}\nspec: {}\n', /spec\.variants/],
    ['no name', 'kind: AccelerationPolicy\nspec: {}\n', /no metadata\.name/],
    ['no policy', 'kind: ConfigMap\n', /holds no AccelerationPolicy/],
    ['nothing', '', /holds no AccelerationPolicy/],
    ['no YAML', 'a: [', /not YAML/],
    ['a pattern that YAML takes for an alias', policy('bad', 'match: {images: [**]}'), /not YAML.*need quotes/],
  ])('%s is an error that names the file', async (_, text, message) => {
    const path = await file('bad.yaml', text);
    await expect(readPolicies([path])).rejects.toThrow(message);
    await expect(readPolicies([path])).rejects.toThrow(path);
  });

  test('that do not match say for which namespace they were asked', async () => {
    const policies = await readPolicies([
      await file('ns.yaml', policy('ns', 'match: {namespaceSelector: {matchLabels: {team: ml}}}')),
    ]);
    const port = new MemoryRegistry();
    const ask = (namespaceLabels: Record<string, string>) => explain({ image: 'nginx', policies, port, namespaceLabels });
    expect((await ask({ team: 'web' })).steps.at(-1)?.detail).toContain('in a namespace labelled team=web');
    expect((await ask({})).steps.at(-1)?.detail).toContain('a namespace without labels');
    expect((await ask({ team: 'ml' })).decision.policy).toBe('ns');
  });
});

describe('recorded answers', () => {
  const body = manifestBody({ name: 'a' });
  const reference = (text: string) => {
    const parsed = parseReference(text);
    if (!parsed.ok) throw new Error(parsed.problem);
    return parsed.reference;
  };

  async function recorded(answers: unknown): Promise<RegistryPort> {
    const inner = await mkdtemp(join(directory, 'r-'));
    await writeFile(join(inner, 'a.json'), JSON.stringify({ answers }));
    await writeFile(join(inner, 'notes.txt'), 'no answers');
    return RecordedRegistry.read(inner);
  }

  test('are served under tag and digest; the digest is that of the bytes', async () => {
    const text = `  ${JSON.stringify(body)}\n`;
    const port = await recorded([{ reference: 'r.example.com/a:1', body: text }]);
    const digest = digestOf(text);
    expect(await port.manifest(reference('r.example.com/a:1'))).toMatchObject({ digest });
    expect(await port.manifest(reference(`r.example.com/a:other@${digest}`))).toMatchObject({ digest });
  });

  test('a body that is not that of its digest is not served', async () => {
    const port = await recorded([{ reference: `r.example.com/a@${digestOf('other')}`, body }]);
    await expect(port.manifest(reference(`r.example.com/a@${digestOf('other')}`))).rejects.toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining('other bytes'),
    });
  });

  test.each([
    [401, 'auth-denied'],
    [403, 'auth-denied'],
    [404, 'variant-missing'],
    [429, 'registry-error'],
    [500, 'registry-error'],
  ])('status %i is %s', async (status, outcome) => {
    const port = await recorded([{ reference: 'r.example.com/a:1', status }]);
    await expect(port.manifest(reference('r.example.com/a:1'))).rejects.toMatchObject({ outcome, status });
  });

  test('what was not recorded says so', async () => {
    const port = await recorded([{ reference: 'r.example.com/a:1', body: 'garbage' }]);
    await expect(port.manifest(reference('r.example.com/b:1'))).rejects.toThrow(/nothing was recorded/);
    await expect(port.manifest(reference('r.example.com/a:1'))).rejects.toThrow(/cannot be used: it is not a JSON object/);
  });

  test('a directory that is not there is an error', async () => {
    await expect(RecordedRegistry.read(join(directory, 'none'))).rejects.toThrow(/cannot read recorded answers: ENOENT/);
  });

  test('configs are served by digest', async () => {
    const config = '{"os":"linux","architecture":"arm64"}';
    const port = await recorded([{ reference: `r.example.com/a@${digestOf(config)}`, body: config }]);
    expect(await port.config(reference('r.example.com/a:1'), digestOf(config))).toMatchObject({ platform: 'linux/arm64' });
    await expect(port.config(reference('r.example.com/a:1'), digestOf('x'))).rejects.toMatchObject({ notFound: true });
  });

  describe('of referrers are read as those of a real registry', () => {
    const subject = digestOf('subject');
    const image = 'r.example.com/a:1';
    const index = (...names: string[]) => ({
      schemaVersion: 2,
      manifests: names.map((name) => ({ mediaType: 'm', digest: digestOf(name), size: 1 })),
    });
    const list = (status: number, body?: unknown) => ({ referrersOf: `r.example.com/a@${subject}`, status, body });
    // Rule: distribution specification, "Referrers Tag Schema": at most 32 and 64 characters.
    const long = `sha512:${'a'.repeat(128)}`;
    const tag = (status: number, body?: unknown, of = subject) => {
      const [algorithm = '', hex = ''] = of.split(':');
      return { reference: `r.example.com/a:${algorithm}-${hex.slice(0, 64)}`, status, body };
    };

    test.each<[string, unknown[], string, [how: string, names: string[]]]>([
      ['a list', [list(200, index('x'))], subject, ['api', ['x']]],
      ['a list and a tag', [list(200, index('x')), tag(200, index('y'))], subject, ['api', ['x', 'y']]],
      ['a list beside a tag that is denied', [list(200, index('x')), tag(403)], subject, ['api', ['x']]],
      ['no list', [list(404), tag(200, index('y'))], subject, ['fallback-tag', ['y']]],
      ['a tag of a long digest', [tag(200, index('y'), long)], long, ['fallback-tag', ['y']]],
      ['something else than a list', [list(200, { layers: [], manifests: [] })], subject, ['unsupported', []]],
      ['nothing', [{ reference: image, body }], subject, ['unsupported', []]],
    ])('%s', async (...[, answers, digest, [how, names]]) => {
      const fact = await (await recorded(answers)).referrers(reference(image), digest);
      expect(fact).toMatchObject({ how, referrers: names.map((name) => ({ digest: digestOf(name) })) });
    });

    test('a tag that leads back to the image is no list', async () => {
      const own = JSON.stringify(index('child'));
      const port = await recorded([tag(200, own, digestOf(own))]);
      expect(await port.referrers(reference(image), digestOf(own))).toMatchObject({ how: 'unsupported', referrers: [] });
    });

    test.each([
      [403, 'auth-denied'],
      [401, 'auth-denied'],
      [429, 'registry-error'],
      [500, 'registry-error'],
    ])('a list that is answered %i is %s', async (status, outcome) => {
      const port = await recorded([list(status)]);
      await expect(port.referrers(reference(image), subject)).rejects.toMatchObject({ outcome, status });
    });
  });

  test.each([
    ['no answers', {}],
    ['an answer without reference', [{ body }]],
    ['an answer with a bad reference', [{ reference: 'A b', body }]],
  ])('a file with %s is an error that names it', async (_, answers) => {
    await expect(recorded(answers)).rejects.toThrow(/a\.json/);
  });
});

test('an index whose variant is a plain index is explained with the platform that is missing', async () => {
  const amd = manifestBody({ name: 'amd' });
  const port = new MemoryRegistry()
    .set('nginx', indexBody([{ platform: 'linux/amd64', body: amd }]))
    .set('docker.io/library/nginx:amd', amd);
  port.set('docker.io/library/nginx:latest-esgz', indexBody([]));
  const policies = await readPolicies([await file('all.yaml', policy('all'))]);
  expect(renderTree(await explain({ image: 'nginx', policies, port, namespaceLabels: {} }))).toContain(
    '✗ platform   the variant has no image for linux/amd64',
  );
});
