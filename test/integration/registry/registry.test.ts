import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import type { VariantRule } from '../../../src/api/kinds/acceleration-policy.js';
import type { RegistryConfig } from '../../../src/config/schema.js';
import { harbingerConfig } from '../../../src/config/schema.js';
import { resolveSource } from '../../../src/images/resolve.js';
import { findVariant } from '../../../src/images/ladder/variant.js';
import { systemClock } from '../../../src/observe/clock.js';
import { createLog } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { createRegistry } from '../../../src/registry/index.js';
import type { Registry } from '../../../src/registry/index.js';
import {
  SOURCE_DIGEST,
  buildImage,
  buildIndex,
  estargzLayer,
  gzipLayer,
  incompressible,
  push,
} from '../../../tools/oci-image/index.js';
import type { Image, ImageOptions, Index, Platform } from '../../../tools/oci-image/index.js';
import { leasePorts } from '../../cluster/leases.js';
import { Pki } from '../../cluster/pki.js';
import { identityOf } from '../../cluster/process-identity.js';
import { startRegistry } from '../../cluster/registry/index.js';
import type { Registry as TestRegistry } from '../../cluster/registry/index.js';
import { Supervisor } from '../../cluster/supervisor/client.js';
import { ensureTools } from '../../cluster/tools.js';

const RULES: VariantRule[] = [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }];
const AMD: Platform = { os: 'linux', architecture: 'amd64' };
const ARM: Platform = { os: 'linux', architecture: 'arm64' };

interface Parts {
  estargz?: boolean;
  platform?: Platform;
  options?: Partial<ImageOptions>;
}

/** A small image; equal seeds give equal images. */
async function image(seed: string, { estargz = false, platform = AMD, options }: Parts = {}): Promise<Image> {
  const layer = await (estargz ? estargzLayer : gzipLayer)([
    { name: 'file', type: 'file', content: incompressible(seed, 20_000) },
  ]);
  return buildImage({ layers: [layer], platform, ...options });
}

const variantOf = (source: Image, record: string | undefined = source.digest, seed = source.digest): Promise<Image> =>
  image(seed, {
    estargz: true,
    platform: source.platform,
    ...(record === '' ? {} : { options: { annotations: { [SOURCE_DIGEST]: record } } }),
  });

describe('the client on a real registry', () => {
  let supervisor: Supervisor;
  let registry: TestRegistry;
  let directory: string;

  beforeAll(async () => {
    const { crane = '' } = await ensureTools(['crane']);
    directory = await mkdtemp(join(tmpdir(), 'registry-test-'));
    supervisor = await Supervisor.launch('registry-test', { owned: true });
    const [port = 0] = await leasePorts(1, identityOf(process.pid));
    const spawn = supervisor.spawn.bind(supervisor);
    registry = await startRegistry({ name: 'registry', spawn, bin: dirname(crane), dir: join(directory, 'blobs'), port });
  }, 300_000);
  afterAll(async () => {
    await registry?.stop();
    await supervisor?.shutdown();
    await rm(directory, { recursive: true, force: true });
  }, 60_000);

  const settings = (more: Partial<RegistryConfig> = {}): RegistryConfig[] =>
    harbingerConfig.parse({ registries: [{ host: registry.host, plainHTTP: true, ...more }] }).registries;
  const send = (what: Image | Index, repository: string, tag: string): Promise<string> =>
    push(what, { host: registry.host, repository, tags: [tag] });

  async function withRegistry<T>(use: (port: Registry) => Promise<T>, registries = settings()): Promise<T> {
    const port = createRegistry(
      { registries },
      { log: createLog({ level: 'silent', name: 'test' }), metrics: new Metrics(), clock: systemClock },
    );
    try {
      return await use(port);
    } finally {
      await port.close();
    }
  }

  async function climb(repository: string, platforms?: string[]) {
    const wanted = platforms === undefined ? {} : { platforms };
    return withRegistry(async (port) => {
      const source = await resolveSource(`${registry.host}/${repository}:1`, port, wanted);
      if (!source.ok) throw new Error(source.message);
      return findVariant({ source, rules: RULES, port, ...wanted });
    });
  }

  describe('a variant', () => {
    test('that records its source is found and pinned by digest', async () => {
      const source = await image('exact');
      await send(source, 'exact', '1');
      const variant = await send(await variantOf(source), 'exact', '1-esgz');
      expect(await climb('exact')).toMatchObject({ outcome: 'accelerated', image: variant, format: 'estargz' });
    });

    test.each([
      ['without a record is not used', 'unknown', '', 'freshness-unknown'],
      ['of another source is not used', 'stale', `sha256:${'0'.repeat(64)}`, 'variant-stale'],
    ])('%s', async (_, repository, record, outcome) => {
      const source = await image(repository);
      await send(source, repository, '1');
      await send(await variantOf(source, record), repository, '1-esgz');
      expect(await climb(repository)).toMatchObject({ outcome });
    });

    test('that is not there is missing', async () => {
      await send(await image('missing'), 'missing', '1');
      expect(await climb('missing')).toMatchObject({ outcome: 'variant-missing' });
    });

    test('that is a plain image is not recognised', async () => {
      const source = await image('plain');
      await send(source, 'plain', '1');
      await send(await image('plain too', { options: { annotations: { [SOURCE_DIGEST]: source.digest } } }), 'plain', '1-esgz');
      expect(await climb('plain')).toMatchObject({ outcome: 'variant-unrecognised' });
    });

    test('of several platforms is compared for each of them', async () => {
      const [amd, arm] = [await image('multi'), await image('multi', { platform: ARM })];
      await send(buildIndex([amd, arm]), 'multi', '1');
      await send(buildIndex([await variantOf(amd)]), 'multi', '1-esgz');
      expect(await climb('multi')).toMatchObject({ outcome: 'platform-missing' });
      expect(await climb('multi', ['linux/amd64'])).toMatchObject({ outcome: 'accelerated' });
      await send(buildIndex([await variantOf(amd), await variantOf(arm)]), 'multi', '1-esgz');
      expect(await climb('multi')).toMatchObject({ outcome: 'accelerated' });
    });

    test('is not used once the tag of its source has moved on', async () => {
      const source = await image('moving');
      await send(source, 'moving', '1');
      await send(await variantOf(source), 'moving', '1-esgz');
      expect(await climb('moving')).toMatchObject({ outcome: 'accelerated' });
      await send(await image('moved'), 'moving', '1');
      expect(await climb('moving')).toMatchObject({ outcome: 'variant-stale' });
    });
  });

  describe('a tag that moves', () => {
    test('between resolving and comparing does not mix two images', async () => {
      const [first, second] = [await image('mix 1'), await image('mix 2')];
      await send(first, 'mix', '1');
      await send(await variantOf(second), 'mix', '1-esgz');
      await withRegistry(async (port) => {
        const source = await resolveSource(`${registry.host}/mix:1`, port);
        if (!source.ok) throw new Error(source.message);
        await send(second, 'mix', '1');
        expect(await findVariant({ source, rules: RULES, port })).toMatchObject({ outcome: 'variant-stale' });
      });
    });

    test('is seen at once by who asks past the cache, and then by all', async () => {
      const [first, second] = [await image('fresh 1'), await image('fresh 2')];
      await send(first, 'fresh', '1');
      await withRegistry(async (port) => {
        const digest = async (options = {}): Promise<string> => {
          const source = await resolveSource(`${registry.host}/fresh:1`, port, options);
          return source.ok ? source.digest : source.message;
        };
        expect(await digest()).toBe(first.digest);
        await send(second, 'fresh', '1');
        expect(await digest()).toBe(first.digest);
        expect(await digest({ fresh: true })).toBe(second.digest);
        expect(await digest()).toBe(second.digest);
      });
    });
  });

  test('an image is resolved with its size and platform', async () => {
    const source = await image('sized', { platform: ARM });
    await send(source, 'sized', '1');
    await withRegistry(async (port) => {
      const name = `${registry.host}/sized:1`;
      const found = await resolveSource(name, port, { platforms: ['linux/arm64'] });
      expect(found).toMatchObject({
        ok: true,
        digest: source.digest,
        sizeBytes: source.sizeBytes - source.manifest.length,
        platforms: [{ platform: 'linux/arm64' }],
      });
      expect(await resolveSource(name, port, { platforms: ['linux/amd64'] })).toMatchObject({
        ok: false,
        reason: 'PlatformMissing',
      });
    });
  });

  test('an absent image and an absent digest are told apart from a failure', async () => {
    await send(await image('there'), 'there', '1');
    await withRegistry(async (port) => {
      for (const name of ['there:2', `there@sha256:${'0'.repeat(64)}`, 'nowhere:1']) {
        expect(await resolveSource(`${registry.host}/${name}`, port)).toMatchObject({ ok: false, reason: 'ImageNotFound' });
      }
    });
  });

  test('a thousand askers cost one request', async () => {
    await send(await image('herd'), 'herd', '1');
    const metrics = new Metrics();
    const port = createRegistry(
      { registries: settings() },
      { log: createLog({ level: 'silent', name: 'test' }), metrics, clock: systemClock },
    );
    const found = await Promise.all(Array.from({ length: 1000 }, () => resolveSource(`${registry.host}/herd:1`, port)));
    expect(found.every((source) => source.ok)).toBe(true);
    expect(await metrics.text()).toContain('harbinger_registry_requests_total{code="200",to="registry"} 1\n');
    await port.close();
  });

  test('a registry that is down is left alone, and asked again when it is back', async () => {
    await send(await image('down'), 'down', '1');
    let now = Date.now();
    const clock = { ...systemClock, now: () => now };
    const port = createRegistry(
      { registries: settings() },
      { log: createLog({ level: 'silent', name: 'test' }), metrics: new Metrics(), clock },
    );
    const ask = () => resolveSource(`${registry.host}/down:1`, port);
    try {
      await registry.stop();
      for (let i = 0; i < 5; i += 1) {
        expect(await ask()).toMatchObject({
          ok: false,
          outcome: 'registry-error',
          message: expect.stringContaining('ECONNREFUSED'),
        });
        now += 5001;
      }
      expect(await ask()).toMatchObject({ ok: false, outcome: 'circuit-open' });
      await registry.start();
      now += 15_000;
      expect(await ask()).toMatchObject({ ok: true });
    } finally {
      await registry.start();
      await port.close();
    }
  }, 120_000);

  describe('behind TLS with an authority of its own', () => {
    let front: Server;
    let host: string;
    let caFile: string;

    beforeAll(async () => {
      const pki = await Pki.create('registry test');
      caFile = join(directory, 'ca.pem');
      await writeFile(caFile, pki.caCert);
      front = createServer(pki.issue({ commonName: 'registry', addresses: ['127.0.0.1'] }), (incoming, outgoing) => {
        const forward = async (): Promise<void> => {
          const answer = await request(`${registry.url}${incoming.url ?? '/'}`, {
            headers: { accept: incoming.headers.accept ?? '*/*' },
          });
          outgoing.writeHead(answer.statusCode, answer.headers);
          outgoing.end(Buffer.from(await answer.body.arrayBuffer()));
        };
        forward().catch(() => outgoing.destroy());
      });
      await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
      host = `127.0.0.1:${(front.address() as AddressInfo).port}`;
      await send(await image('tls'), 'tls', '1');
    }, 60_000);
    afterAll(() => {
      front?.closeAllConnections();
      front?.close();
    });

    test('it is read with caFile', async () => {
      const registries = harbingerConfig.parse({ registries: [{ host, caFile }] }).registries;
      expect(await withRegistry((port) => resolveSource(`${host}/tls:1`, port), registries)).toMatchObject({ ok: true });
    });

    test('it is not trusted without, and the message says what to set', async () => {
      const registries = harbingerConfig.parse({ registries: [{ host }] }).registries;
      expect(await withRegistry((port) => resolveSource(`${host}/tls:1`, port), registries)).toMatchObject({
        ok: false,
        message: expect.stringMatching(/not trusted \(.*set caFile/),
      });
    });
  });

  test('the executable explains an image of it', async () => {
    const source = await image('cli');
    await send(source, 'ml/cli', '1');
    const variant = await send(await variantOf(source), 'ml/cli', '1-esgz');
    const [config, policy] = [join(directory, 'config.yaml'), join(directory, 'policy.yaml')];
    await writeFile(config, JSON.stringify({ registries: settings() }));
    await writeFile(policy, JSON.stringify({ kind: 'AccelerationPolicy', metadata: { name: 'p' }, spec: { variants: RULES } }));
    const args = ['.out/harbinger.mjs', 'explain', `${registry.host}/ml/cli:1`, '-p', policy, '--config', config];
    const explain = async (...more: string[]): Promise<string> =>
      (await promisify(execFile)(process.execPath, [...args, ...more])).stdout;
    expect(await explain()).toContain(`=> accelerated: the Pod gets ${variant}`);
    expect(JSON.parse(await explain('-o', 'json'))).toMatchObject({
      decision: { outcome: 'accelerated', image: variant, sourceDigest: source.digest },
    });
  }, 60_000);
});
