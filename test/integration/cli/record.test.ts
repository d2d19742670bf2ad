import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { stringify } from 'yaml';
import { buildImage, buildIndex, estargzLayer, gzipLayer, incompressible, push } from '../../../tools/oci-image/index.js';
import type { Image, Index, Platform } from '../../../tools/oci-image/index.js';
import { leasePorts } from '../../cluster/leases.js';
import { identityOf } from '../../cluster/process-identity.js';
import { startRegistry } from '../../cluster/registry/index.js';
import type { Registry } from '../../cluster/registry/index.js';
import { Supervisor } from '../../cluster/supervisor/client.js';
import { ensureTools } from '../../cluster/tools.js';
import { policy } from '../webhook/ground.js';
import { file, harbinger } from './ground.js';

const AMD: Platform = { os: 'linux', architecture: 'amd64' };
const ARM: Platform = { os: 'linux', architecture: 'arm64' };

async function image(seed: string, { estargz = false, platform = AMD } = {}): Promise<Image> {
  const make = estargz ? estargzLayer : gzipLayer;
  return buildImage({ layers: [await make([{ name: 'file', type: 'file', content: incompressible(seed, 2_000) }])], platform });
}

type Kept = 'api' | 'fallback-tag';

/** A registry in front of the real one, which has no referrers API; with `api` it adds one as the specification wants it. */
function front(target: Registry, kept: Kept): Promise<Server> {
  const referrers = new Map<string, object[]>();
  const learn = (body: Buffer): boolean => {
    const { subject, artifactType, annotations } = JSON.parse(body.toString()) as Record<string, unknown>;
    const digest = (subject as { digest: string } | undefined)?.digest;
    if (kept !== 'api' || digest === undefined) return false;
    const entry = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: sha256(body), size: body.length };
    referrers.set(digest, [...(referrers.get(digest) ?? []), { ...entry, artifactType, annotations }]);
    return true;
  };
  const relay = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const path = incoming.url ?? '';
    const asked = /\/referrers\/(.*)$/.exec(path)?.[1];
    if (asked !== undefined) {
      const manifests = referrers.get(asked) ?? [];
      const index = { schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', manifests };
      if (kept === 'api') outgoing.writeHead(200, { 'content-type': index.mediaType }).end(JSON.stringify(index));
      else outgoing.writeHead(404).end('404 page not found');
      return;
    }
    const body = await bytesOf(incoming);
    const understood = incoming.method === 'PUT' && path.includes('/manifests/') && learn(body);
    const { host: _, ...headers } = incoming.headers;
    const call = request(`${target.url}${path}`, { method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...(understood ? { 'oci-subject': 'yes' } : {}) });
      answer.pipe(outgoing);
    });
    call.on('error', () => outgoing.destroy());
    call.end(body);
  };
  const server = createServer((incoming, outgoing) => {
    relay(incoming, outgoing).catch(() => outgoing.destroy());
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

async function bytesOf(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const sha256 = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** Each test starts the executable several times, on machines that do other things as well. */
jest.setTimeout(120_000);

describe('record', () => {
  let supervisor: Supervisor;
  let registry: Registry;
  let fronts: Server[];
  let directory: string;
  let config: string;
  let policies: string;
  let hosts: Record<Kept, string>;

  beforeAll(async () => {
    const { crane = '' } = await ensureTools(['crane']);
    directory = mkdtempSync(join(tmpdir(), 'record-'));
    supervisor = await Supervisor.launch('record-test', { owned: true });
    const [port = 0] = await leasePorts(1, identityOf(process.pid));
    const spawn = supervisor.spawn.bind(supervisor);
    registry = await startRegistry({ name: 'registry', spawn, bin: dirname(crane), dir: join(directory, 'blobs'), port });
    fronts = await Promise.all([front(registry, 'api'), front(registry, 'fallback-tag')]);
    const [api = '', tag = ''] = fronts.map((server) => `127.0.0.1:${(server.address() as AddressInfo).port}`);
    hosts = { api, 'fallback-tag': tag };
    const registries = Object.values(hosts).map((host) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
    config = file(directory, 'config.yaml', stringify({ registries }));
    policies = file(directory, 'policy.json', policy('all'));
  }, 300_000);
  afterAll(async () => {
    for (const server of fronts ?? []) server.close();
    await registry?.stop();
    await supervisor?.shutdown();
    rmSync(directory, { recursive: true, force: true });
  }, 60_000);

  const send = (what: Image | Index, repository: string, tag: string): Promise<string> =>
    push(what, { host: registry.host, repository, tags: [tag] });
  const record = (...args: string[]) => harbinger(['record', ...args, '--config', config]);
  const outcome = async (source: string): Promise<string> => {
    const { out, err } = await harbinger(['explain', source, '-p', policies, '--config', config]);
    return /=> ([a-z-]+)/.exec(out)?.[1] ?? err;
  };

  test.each(['api', 'fallback-tag'] as const)('makes a variant of two platforms exact, kept by %s', async (how) => {
    const repository = `two-${how}`;
    const children = await Promise.all(
      [AMD, ARM].map((platform) => image(`${repository} ${platform.architecture}`, { platform })),
    );
    const variants = await Promise.all(
      [AMD, ARM].map((platform) => image(`${repository} ${platform.architecture}`, { platform, estargz: true })),
    );
    await send(buildIndex(children), repository, '1');
    await send(buildIndex(variants), repository, '1-esgz');
    const source = `${hosts[how]}/${repository}:1`;
    expect(await outcome(source)).toBe('freshness-unknown');
    const first = await record(source, `${source}-esgz`);
    expect(first).toMatchObject({ code: 0, err: '' });
    for (const { digest } of children) expect(first.out).toContain(`source   ${digest}`);
    for (const { digest } of variants) expect(first.out).toContain(`variant  ${digest}`);
    expect(first.out.match(/^recorded: linux/gm)).toHaveLength(2);
    expect(first.out).toContain(how === 'api' ? 'lists it by its referrers API' : 'by the fallback tag');
    expect(await outcome(source)).toBe('accelerated');
    // Again it changes nothing, and says so.
    const again = await record(source, `${source}-esgz`);
    expect(again.out.match(/^recorded already: linux/gm)).toHaveLength(2);
    // A tag that moves is another source: the record is for the old one.
    await send(await image(`${repository} moved`), repository, '1');
    expect(await outcome(source)).toBe('variant-stale');
  });

  test('makes a variant of one manifest exact, and takes a second record beside the first', async () => {
    const source = `${hosts.api}/one:1`;
    await send(await image('one'), 'one', '1');
    await send(await image('one', { estargz: true }), 'one', '1-esgz');
    expect((await record(source, `${source}-esgz`)).out).toMatch(/^recorded: linux\/amd64|^recorded: the image/);
    expect(await outcome(source)).toBe('accelerated');
  });

  test.each<[string, string, { estargz?: boolean; recorded?: string }, RegExp]>([
    ['a variant of no known format', 'plain', {}, /of no format that Harbinger knows/],
    [
      'a variant that shows another source',
      'other',
      { estargz: true, recorded: `sha256:${'0'.repeat(64)}` },
      /does not look as if it was made from/,
    ],
  ])('%s is refused with nothing written, unless forced', async (_, repository, parts, message) => {
    const source = `${hosts.api}/${repository}:1`;
    await send(await image(repository), repository, '1');
    const layer = await (parts.estargz === true ? estargzLayer : gzipLayer)([
      { name: 'f', type: 'file', content: incompressible('x', 2_000) },
    ]);
    const annotations = parts.recorded === undefined ? {} : { 'harbinger.dev/source-digest': parts.recorded };
    await send(buildImage({ layers: [layer], platform: AMD, annotations }), repository, '1-esgz');
    const refused = await record(source, `${source}-esgz`);
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toMatch(message);
    expect(refused.err).toContain('nothing was written');
    expect((await record(source, `${source}-esgz`, '--force')).out).toContain('recorded: ');
  });

  test('a variant of another platform is refused, also where its source has but one', async () => {
    const source = `${hosts.api}/foreign:1`;
    await send(await image('foreign'), 'foreign', '1');
    await send(await image('foreign', { estargz: true, platform: ARM }), 'foreign', '1-esgz');
    for (const force of [[], ['--force']]) {
      const refused = await record(source, `${source}-esgz`, ...force);
      expect(refused).toMatchObject({ code: 1, out: '' });
      expect(refused.err).toContain('is for linux/arm64, and its source for linux/amd64');
    }
    expect(await outcome(source)).not.toBe('accelerated');
  });

  test('a variant that records its source itself needs none', async () => {
    const source = `${hosts.api}/own:1`;
    const { digest } = await image('own');
    await send(await image('own'), 'own', '1');
    const layer = await estargzLayer([{ name: 'file', type: 'file', content: incompressible('own', 2_000) }]);
    const annotations = { 'harbinger.dev/source-digest': digest };
    await send(buildImage({ layers: [layer], platform: AMD, annotations }), 'own', '1-esgz');
    expect((await record(source, `${source}-esgz`)).out).toContain('no record needed');
    expect(await record('--print-annotation', source)).toMatchObject({ out: `harbinger.dev/source-digest=${digest}\n` });
  });

  test.each<[string, (host: string) => string[], number, RegExp]>([
    ['a source that is not there', (h) => [`${h}/none:1`, `${h}/none:1-esgz`], 1, /none/],
    [
      'a variant in another registry',
      (h) => [`${h}/one:1`, 'registry.example.com/one:1-esgz'],
      1,
      /not in the registry of its source/,
    ],
    ['the source as its own variant', (h) => [`${h}/one:1`, `${h}/one:1`], 1, /are the same image/],
    ['no variant', (h) => [`${h}/one:1`], 2, /no variant given/],
  ])('%s is an error with a way out', async (_, args, code, message) => {
    const ran = await record(...args(hosts.api));
    expect(ran).toMatchObject({ code, out: '' });
    expect(ran.err).toMatch(message);
  });
});
