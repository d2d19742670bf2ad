import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { harbingerConfig } from '../../../src/config/schema.js';
import { withCredentials } from '../../../src/images/credential-chain.js';
import { parseReference } from '../../../src/images/reference.js';
import type { Reference } from '../../../src/images/reference.js';
import type { Descriptor } from '../../../src/images/registry-port.js';
import { systemClock } from '../../../src/observe/clock.js';
import { createLog } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { createRegistry } from '../../../src/registry/index.js';
import type { Registry } from '../../../src/registry/index.js';
import type { Pushed } from '../../../src/registry/push.js';
import { buildImage, gzipLayer, incompressible, push } from '../../../tools/oci-image/index.js';
import { leasePorts } from '../../cluster/leases.js';
import { Pki } from '../../cluster/pki.js';
import { identityOf } from '../../cluster/process-identity.js';
import { Supervisor } from '../../cluster/supervisor/client.js';
import { ensureTools } from '../../cluster/tools.js';
import { notYet, until } from '../../cluster/until.js';

/** Debian's build of the registry that most others derive from; it knows nothing of referrers. */
const DISTRIBUTION = '/usr/bin/docker-registry';
const INSTALLED = existsSync(DISTRIBUTION);
const TYPE = 'application/vnd.example.record.v1+json';
const basic = (user: string): string => `Basic ${Buffer.from(`${user}:p`).toString('base64')}`;

let supervisor: Supervisor;
let directory: string;
/** `ip:port` of a registry with the API. */
let modern: string;
/** `ip:port` of registries without the API. */
const plain = { crane: '', distribution: '' };
const fronts: Server[] = [];
const open: Registry[] = [];

beforeAll(async () => {
  const { 'referrers-registry': command = '', crane = '' } = await ensureTools(['referrers-registry', 'crane']);
  directory = await mkdtemp(join(tmpdir(), 'real-registry-'));
  supervisor = await Supervisor.launch('real-registry', { owned: true });
  const [first = 0, second = 0, third = 0] = await leasePorts(3, identityOf(process.pid));
  modern = `127.0.0.1:${first}`;
  await supervisor.spawn({ name: 'modern', command, args: ['--address', modern] });
  await answers(modern);
  plain.crane = `127.0.0.1:${second}`;
  await supervisor.spawn({ name: 'crane', command: crane, args: ['registry', 'serve', '--address', plain.crane] });
  await answers(plain.crane);
  if (INSTALLED) plain.distribution = await startDistribution(third);
}, 300_000);

afterAll(async () => {
  await Promise.all(open.map((registry) => registry.close()));
  for (const front of fronts) {
    front.closeAllConnections();
    front.close();
  }
  await supervisor?.shutdown();
  await rm(directory, { recursive: true, force: true });
}, 60_000);

async function startDistribution(port: number): Promise<string> {
  const [host, blobs, config] = [`127.0.0.1:${port}`, join(directory, 'distribution'), join(directory, 'distribution.yml')];
  await mkdir(blobs);
  await writeFile(
    config,
    JSON.stringify({
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: blobs } },
      http: { addr: host },
    }),
  );
  await supervisor.spawn({ name: 'distribution', command: DISTRIBUTION, args: ['serve', config] });
  await answers(host);
  return host;
}

function answers(host: string): Promise<unknown> {
  return until(`the registry at ${host}`, async () => {
    const { statusCode, body } = await request(`http://${host}/v2/`);
    await body.dump();
    return statusCode === 200 || notYet(`status ${statusCode}`);
  });
}

function connect(registries: object[]): Registry {
  const deps = { log: createLog({ level: 'silent', name: 'test' }), metrics: new Metrics(), clock: systemClock };
  const registry = createRegistry({ registries: harbingerConfig.parse({ registries }).registries }, deps);
  open.push(registry);
  return registry;
}

function ref(text: string): Reference {
  const parsed = parseReference(text);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.reference;
}

/** A small image in a registry, and its descriptor. */
async function imageIn(host: string, repository: string): Promise<Descriptor> {
  const layer = await gzipLayer([{ name: 'file', type: 'file', content: incompressible(repository, 5000) }]);
  const image = buildImage({ layers: [layer], platform: { os: 'linux', architecture: 'amd64' } });
  await push(image, { host, repository, tags: ['1'] });
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  return { mediaType, digest: image.digest, size: Buffer.byteLength(image.manifest), annotations: {} };
}

const record = (subject: Descriptor, name: string) => ({ artifactType: TYPE, annotations: { name }, subject });

type Gate = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

/** Stands before a registry with TLS of a private authority; `gate` answers itself or lets through. */
async function front(behind: string, pki: Pki, gate: Gate): Promise<string> {
  const server = createServer(pki.issue({ commonName: 'registry', addresses: ['127.0.0.1'] }), (incoming, outgoing) => {
    const forward = async (): Promise<void> => {
      if (!gate(incoming, outgoing)) return;
      const answer = await request(`http://${behind}${incoming.url ?? '/'}`, {
        headers: { accept: incoming.headers.accept ?? '*/*' },
      });
      outgoing.writeHead(answer.statusCode, answer.headers).end(Buffer.from(await answer.body.arrayBuffer()));
    };
    forward().catch(() => outgoing.destroy());
  });
  fronts.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('what refers to an image', () => {
  test('is written to and read from a registry with the API', async () => {
    const subject = await imageIn(modern, 'api');
    const registry = connect([{ host: modern, plainHTTP: true }]);
    const image = ref(`${modern}/api:1`);
    expect(await registry.referrers(image, `sha256:${'0'.repeat(64)}`)).toMatchObject({ how: 'api', referrers: [] });
    // This one does not say that it lists what was pushed (OCI-Subject), so it is kept under the tag as well.
    const pushed = await registry.pushReferrer(image, record(subject, 'one'));
    expect(pushed.how).toBe('fallback-tag');
    expect(await registry.pushReferrer(image, record(subject, 'one'))).toEqual(pushed);
    const found = await registry.referrers(image, subject.digest);
    expect(found).toMatchObject({ how: 'api', referrers: [{ digest: pushed.digest, artifactType: TYPE }] });
    expect(await registry.manifest({ ...image, digest: pushed.digest })).toMatchObject({
      artifactType: TYPE,
      subject: { digest: subject.digest },
      annotations: { name: 'one' },
    });
  });

  const keptUnderTag = async (host: string): Promise<void> => {
    const subject = await imageIn(host, 'team/tagged');
    const registry = connect([{ host, plainHTTP: true }]);
    const image = ref(`${host}/team/tagged:1`);
    expect(await registry.referrers(image, `sha256:${'0'.repeat(64)}`)).toMatchObject({ how: 'unsupported', referrers: [] });
    const one = await registry.pushReferrer(image, record(subject, 'one'));
    const two = await registry.pushReferrer(image, record(subject, 'two'));
    await registry.pushReferrer(image, record(subject, 'one'));
    expect([one.how, two.how]).toEqual(['fallback-tag', 'fallback-tag']);
    const found = await registry.referrers(image, subject.digest);
    expect(found.how).toBe('fallback-tag');
    expect(found.referrers.map(({ digest, artifactType }) => [digest, artifactType])).toEqual([
      [one.digest, TYPE],
      [two.digest, TYPE],
    ]);
  };

  test('is kept under the fallback tag where the registry has no API, each once', () => keptUnderTag(plain.crane));

  // Not everybody has it; a run without it says that a test was skipped.
  (INSTALLED ? test : test.skip)('is kept likewise by the registry of Debian', () => keptUnderTag(plain.distribution));
});

describe('behind TLS of a private authority', () => {
  let pki: Pki;
  let caFile: string;
  let subject: Descriptor;
  beforeAll(async () => {
    pki = await Pki.create('real registries');
    caFile = join(directory, 'ca.pem');
    await writeFile(caFile, pki.caCert);
    subject = await imageIn(modern, 'private/app');
  }, 120_000);

  test('basic authentication: the credential of the Pod goes first, then that of Harbinger', async () => {
    const host = await front(modern, pki, ({ headers }, outgoing) => {
      if (headers.authorization === basic('reader')) return true;
      outgoing.writeHead(401, { 'www-authenticate': 'Basic realm="registry"' }).end();
      return false;
    });
    const dockerConfigFile = join(directory, 'config.json');
    await writeFile(dockerConfigFile, JSON.stringify({ auths: { [host]: { username: 'reader', password: 'p' } } }));
    const registry = connect([{ host, caFile, credential: { dockerConfigFile } }]);
    const image = ref(`${host}/private/app:1`);
    const wrong = { username: 'somebody', password: 'p' };
    await expect(withCredentials(registry, [wrong]).manifest(image)).rejects.toMatchObject({ outcome: 'auth-denied' });
    expect(await withCredentials(registry, [wrong, undefined]).manifest(image)).toMatchObject({ digest: subject.digest });

    const closed = connect([{ host, caFile, credential: { dockerConfigFile, forPods: false } }]);
    await expect(withCredentials(closed, [wrong, undefined]).manifest(image)).rejects.toMatchObject({ outcome: 'auth-denied' });
    expect(await closed.manifest(image)).toMatchObject({ digest: subject.digest });
  });

  test('a token service: one token for a repository, none without the right', async () => {
    const issued: string[] = [];
    const host = await front(modern, pki, ({ url = '', headers }, outgoing) => {
      const { pathname, searchParams } = new URL(url, 'https://front');
      if (pathname === '/token') {
        const allowed = headers.authorization === basic('reader');
        if (allowed) issued.push(searchParams.get('scope') ?? '');
        outgoing
          .writeHead(allowed ? 200 : 401)
          .end(JSON.stringify({ token: `for-${searchParams.get('scope')}`, expires_in: 300 }));
        return false;
      }
      const scope = `repository:${/^\/v2\/(.+)\/(?:manifests|blobs|referrers)\//.exec(pathname)?.[1]}:pull`;
      if (headers.authorization === `Bearer for-${scope}`) return true;
      outgoing.writeHead(401, { 'www-authenticate': `Bearer realm="https://${host}/token",service="front"` }).end();
      return false;
    });
    const registry = connect([{ host, caFile }]);
    const image = ref(`${host}/private/app:1`);
    const reader = { username: 'reader', password: 'p' };
    await expect(registry.manifest(image)).rejects.toMatchObject({ outcome: 'auth-denied' });
    const chained = withCredentials(registry, [reader]);
    const fact = await chained.manifest(image);
    expect(fact.digest).toBe(subject.digest);
    expect(await chained.config(image, fact.config?.digest ?? '')).toMatchObject({ platform: 'linux/amd64' });
    expect(await chained.referrers(image, subject.digest)).toMatchObject({ how: 'api' });
    expect(issued).toEqual(['repository:private/app:pull']);
  });

  test('a list of referrers in pages is read to its end', async () => {
    const writer = connect([{ host: modern, plainHTTP: true }]);
    const names = ['a', 'b', 'c'];
    const pushed: Pushed[] = [];
    for (const name of names) pushed.push(await writer.pushReferrer(ref(`${modern}/private/app:1`), record(subject, name)));
    const host = await front(modern, pki, ({ url = '' }, outgoing) => {
      const { pathname, searchParams } = new URL(url, 'https://front');
      // Only the pages of the API are read: the tag would hold all of them.
      if (pathname.includes('/manifests/')) outgoing.writeHead(404).end();
      if (!pathname.includes('/referrers/')) return false;
      const page = Number(searchParams.get('n') ?? '0');
      const serve = async (): Promise<void> => {
        const answer = await request(`http://${modern}${pathname}`);
        const index = (await answer.body.json()) as { manifests: { digest: string }[] };
        // The registry behind lists them in another order each time, so pages of it would not fit together.
        index.manifests.sort((x, y) => (x.digest < y.digest ? -1 : 1));
        const link = page + 1 < index.manifests.length ? { link: `<${pathname}?n=${page + 1}>; rel="next"` } : {};
        outgoing.writeHead(200, link).end(JSON.stringify({ ...index, manifests: [index.manifests[page]] }));
      };
      serve().catch(() => outgoing.destroy());
      return false;
    });
    const found = await connect([{ host, caFile }]).referrers(ref(`${host}/private/app:1`), subject.digest);
    expect(found.referrers.map(({ digest }) => digest).sort()).toEqual(pushed.map(({ digest }) => digest).sort());
  });

  test('a mirror serves until it is gone, and the registry from then on', async () => {
    const mirror = await front(modern, pki, () => true);
    const server = fronts.at(-1);
    const registry = connect([
      { host: 'registry.invalid', mirrors: [mirror] },
      { host: mirror, caFile },
    ]);
    // The registry itself cannot be reached: what is answered came from the mirror.
    expect(await registry.manifest(ref('registry.invalid/private/app:1'))).toMatchObject({ digest: subject.digest });
    const both = connect([
      { host: modern, plainHTTP: true, mirrors: [mirror] },
      { host: mirror, caFile },
    ]);
    server?.closeAllConnections();
    await new Promise((resolve) => server?.close(resolve));
    expect(await both.manifest(ref(`${modern}/private/app:1`))).toMatchObject({ digest: subject.digest });
  });
});
