import { X509Certificate } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import forge from 'node-forge';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { KubePort, Patch } from '../../../src/kube/port.js';
import { createLog } from '../../../src/observe/log.js';
import { AuthorityKeeper } from '../../../src/webhook/certs/authority.js';
import { bundlePatch, trusts, wantedBundle } from '../../../src/webhook/certs/ca-bundle.js';
import type { CaSecret } from '../../../src/webhook/certs/ca-secret.js';
import { caRequiresRegeneration, readAuthority, regenerate } from '../../../src/webhook/certs/ca-secret.js';
import { leafRequiresRenewal, signLeaf } from '../../../src/webhook/certs/leaf.js';
import { newSerial, notAfterOf, readBundle, renewAt } from '../../../src/webhook/certs/x509.js';
import { FakeClock } from '../kube/fake-clock.js';

const HOUR = 3_600_000;
const NOW = Date.parse('2030-01-01T00:00:00Z');
const log = createLog({ level: 'silent', name: 'test' });

function makeSecret(now = NOW, validityMs = 24 * HOUR, before?: CaSecret): CaSecret {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'harbinger-ca' }, data: regenerate(before, now, validityMs) };
}

const encode = (text: string): string => Buffer.from(text).toString('base64');
const decode = (text: string | undefined): string => Buffer.from(text ?? '', 'base64').toString();

test.each([
  ['zeros', Buffer.alloc(15)],
  ['a zero and a small byte', Buffer.from([0, 1, ...Buffer.alloc(13)])],
  ['high bits', Buffer.alloc(15, 0xff)],
])('a serial number of %s is positive and as short as DER wants it', (_, random) => {
  const [first = 0] = Buffer.from(newSerial(random), 'hex');
  expect([first > 0, first < 0x80, newSerial(random).length]).toEqual([true, true, 32]);
});

describe('caRequiresRegeneration', () => {
  const good = makeSecret();
  const other = makeSecret();
  const { pair } = signLeaf(readAuthority(good), ['a.example'], NOW, HOUR);
  const rsa = forge.pki.privateKeyToPem(forge.pki.rsa.generateKeyPair(1024).privateKey);
  const withData = (data: Record<string, string>): CaSecret => ({ ...good, data: { ...good.data, ...data } });
  test.each<[string, CaSecret, number, RegExp | undefined]>([
    ['a fresh one is good', good, NOW, undefined],
    ['one before two thirds of its life is good', good, NOW + 15 * HOUR, undefined],
    ['one after two thirds of its life', good, NOW + 16 * HOUR, /two thirds/],
    ['an expired one', good, NOW + 25 * HOUR, /expired/],
    ['one from the future (the clock jumped back)', good, NOW - HOUR, /not valid before/],
    ['no data', { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'x' } }, NOW, /missing/],
    ['no key', withData({ 'tls.key': '' }), NOW, /missing/],
    ['garbage for a certificate', withData({ 'tls.crt': encode('garbage') }), NOW, /no certificate/],
    [
      'a broken certificate',
      withData({ 'tls.crt': encode('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----') }),
      NOW,
      /no certificate/,
    ],
    ['garbage for a key', withData({ 'tls.key': encode('garbage') }), NOW, /no private key/],
    ['an RSA key', withData({ 'tls.key': encode(rsa) }), NOW, /P-256/],
    ['the key of another certificate', withData({ 'tls.key': other.data?.['tls.key'] ?? '' }), NOW, /does not belong/],
    [
      'a leaf instead of an authority',
      withData({ 'tls.crt': encode(pair.cert), 'tls.key': encode(pair.key) }),
      NOW,
      /not a certificate authority/,
    ],
    ['a bundle without it', withData({ 'ca.crt': other.data?.['ca.crt'] ?? '' }), NOW, /ca\.crt does not hold/],
  ])('%s', (_, secret, now, want) => {
    const reason = caRequiresRegeneration(secret, now);
    if (want === undefined) expect(reason).toBeUndefined();
    else expect(reason).toMatch(want);
  });
});

describe('regenerate', () => {
  test('keeps the previous authority trusted until it expires', () => {
    const first = makeSecret();
    const second = makeSecret(NOW + 16 * HOUR, 24 * HOUR, first);
    const trusted = readAuthority(second).trusted.map((c) => c.subject);
    expect(trusted).toEqual([readAuthority(second).cert.subject, readAuthority(first).cert.subject]);
    expect(readAuthority(makeSecret(NOW + 30 * HOUR, 24 * HOUR, first)).trusted).toHaveLength(1);
  });

  test('keeps no more than one, and no garbage', () => {
    const third = makeSecret(NOW + 2, HOUR, makeSecret(NOW + 1, HOUR, makeSecret()));
    expect(readAuthority(third).trusted).toHaveLength(2);
    expect(readAuthority(makeSecret(NOW, HOUR, { ...makeSecret(), data: { 'tls.crt': encode('x') } })).trusted).toHaveLength(1);
  });
});

describe('a leaf', () => {
  const authority = readAuthority(makeSecret());
  const leaf = signLeaf(authority, ['harbinger-webhook.harbinger-system.svc', '127.0.0.1', '::1'], NOW, HOUR);

  test('is a server certificate for its names, signed by the authority', () => {
    expect(leaf.cert.checkHost('harbinger-webhook.harbinger-system.svc')).toBeDefined();
    expect(leaf.cert.checkHost('other.example')).toBeUndefined();
    expect([leaf.cert.checkIP('127.0.0.1'), leaf.cert.checkIP('::1'), leaf.cert.checkIP('127.0.0.2')]).toEqual([
      '127.0.0.1',
      '::1',
      undefined,
    ]);
    expect(leaf.cert.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
    expect([leaf.cert.ca, authority.cert.ca]).toEqual([false, true]);
    expect(leaf.cert.verify(authority.cert.publicKey)).toBe(true);
    expect(leaf.cert.verify(readAuthority(makeSecret()).cert.publicKey)).toBe(false);
  });

  test('has a positive serial of its own', () => {
    const another = signLeaf(authority, ['a'], NOW, HOUR);
    expect(another.cert.serialNumber).not.toBe(leaf.cert.serialNumber);
    // Node prints the integer without the leading zero byte that keeps it positive, and a negative one with a sign.
    expect(leaf.cert.serialNumber).toMatch(/^[0-9A-F]{1,40}$/);
  });

  test('is valid a little before now, and never outlives its authority', () => {
    expect(Date.parse(leaf.cert.validFrom)).toBe(NOW - 300_000);
    expect(notAfterOf(signLeaf(authority, ['a'], NOW, 100 * HOUR).cert)).toBe(notAfterOf(authority.cert));
    expect(renewAt(leaf.cert)).toBeLessThan(NOW + HOUR);
  });

  const next = readAuthority(makeSecret(NOW, 24 * HOUR, makeSecret()));
  test.each<[string, typeof leaf | undefined, typeof authority, number, boolean, RegExp | undefined]>([
    ['none yet', undefined, authority, NOW, false, /none yet/],
    ['a fresh one stays', leaf, authority, NOW, true, undefined],
    ['two thirds over', leaf, authority, NOW + 0.7 * HOUR, false, /two thirds/],
    ['expired', leaf, authority, NOW + 2 * HOUR, false, /expired/],
    ['a new authority that is not trusted yet: the old leaf stays', leaf, next, NOW, false, undefined],
    ['also after two thirds of its life', leaf, next, NOW + 0.7 * HOUR, false, undefined],
    ['but not when expired', leaf, next, NOW + 2 * HOUR, false, /expired/],
    ['a new authority that is trusted', leaf, next, NOW, true, /authority changed/],
  ])('is renewed: %s', (...[, current, ca, now, settled, want]) => {
    const reason = leafRequiresRenewal(current, ca, now, settled);
    if (want === undefined) expect(reason).toBeUndefined();
    else expect(reason).toMatch(want);
  });
});

describe('the bundle', () => {
  const first = makeSecret();
  const second = makeSecret(NOW + HOUR, 24 * HOUR, first);
  const [a, b] = [readAuthority(first), readAuthority(second)];
  const subjects = (bundle: string): string[] => readBundle(decode(bundle)).map((c) => c.subject);

  test('of replicas with different knowledge ends the same, whoever writes last', () => {
    const byOld = wantedBundle(wantedBundle('', b.trusted, NOW + HOUR), a.trusted, NOW + HOUR);
    const byNew = wantedBundle(wantedBundle('', a.trusted, NOW + HOUR), b.trusted, NOW + HOUR);
    expect(byOld).toBe(byNew);
    expect(subjects(byNew)).toEqual([b.cert.subject, a.cert.subject]);
    expect(wantedBundle(byNew, a.trusted, NOW + HOUR)).toBe(byNew);
  });

  test('drops what expired and what is not ours', () => {
    const { pair } = signLeaf(a, ['a'], NOW, HOUR);
    expect(subjects(wantedBundle(encode(`garbage${pair.cert}`), a.trusted, NOW))).toEqual([a.cert.subject]);
    expect(subjects(wantedBundle(wantedBundle('', a.trusted, NOW), b.trusted, NOW + 24.5 * HOUR))).toEqual([b.cert.subject]);
  });

  test('does not grow for ever', () => {
    let bundle = '';
    for (let i = 0; i < 10; i++) bundle = wantedBundle(bundle, readAuthority(makeSecret(NOW + i * 1000)).trusted, NOW + i * 1000);
    expect(subjects(bundle)).toHaveLength(4);
  });

  test('is patched where it differs, and nowhere else', () => {
    const good = wantedBundle('', a.trusted, NOW);
    const view = {
      name: 'harbinger',
      webhooks: [
        { name: 'x', caBundle: good, selected: 'labelled' as const },
        { name: 'y', caBundle: '', selected: 'labelled' as const },
      ],
    };
    expect(bundlePatch(view, a.trusted, NOW)).toEqual([
      { op: 'test', path: '/webhooks/1/name', value: 'y' },
      { op: 'add', path: '/webhooks/1/clientConfig/caBundle', value: good },
    ]);
    expect([trusts(view, a.cert), trusts(undefined, a.cert)]).toEqual([false, false]);
    const fixed = { ...view, webhooks: view.webhooks.map((w) => ({ ...w, caBundle: good })) };
    expect([trusts(fixed, a.cert), trusts(fixed, b.cert), bundlePatch(fixed, a.trusted, NOW)]).toEqual([true, false, []]);
  });
});

/** A store of one Secret with the API server's rules for races. */
class SecretStore implements Pick<KubePort, 'get' | 'create' | 'patch'> {
  secret: CaSecret | undefined;
  writes = 0;
  /** Runs before the next write: what another replica does in between. */
  meanwhile: (() => void) | undefined;

  get<T extends KubeObject>(): Promise<T> {
    return this.secret === undefined
      ? Promise.reject(new KubeError('absent', { status: 404, reason: 'NotFound' }))
      : Promise.resolve(structuredClone(this.secret) as KubeObject as T);
  }

  create<T extends KubeObject>(_resource: unknown, object: KubeObject): Promise<T> {
    this.#interfere();
    if (this.secret !== undefined) return Promise.reject(new KubeError('there', { status: 409, reason: 'AlreadyExists' }));
    return this.#store(object) as Promise<KubeObject> as Promise<T>;
  }

  patch<T extends KubeObject>(_resource: unknown, _name: unknown, patch: Patch): Promise<T> {
    this.#interfere();
    const body = (patch as { body: CaSecret }).body;
    if (body.metadata.resourceVersion !== this.secret?.metadata.resourceVersion)
      return Promise.reject(new KubeError('stale', { status: 409, reason: 'Conflict' }));
    return this.#store({ ...this.secret, ...body }) as Promise<KubeObject> as Promise<T>;
  }

  put(secret: CaSecret): void {
    void this.#store(secret);
  }

  #interfere(): void {
    const act = this.meanwhile;
    this.meanwhile = undefined;
    act?.();
  }

  #store(secret: CaSecret): Promise<CaSecret> {
    this.writes++;
    this.secret = { ...secret, metadata: { ...secret.metadata, name: 'harbinger-ca', resourceVersion: String(this.writes) } };
    return Promise.resolve(structuredClone(this.secret));
  }
}

describe('AuthorityKeeper', () => {
  const make = (now = NOW): { store: SecretStore; keeper: AuthorityKeeper } => {
    const store = new SecretStore();
    const secret = { namespace: 'harbinger-system', name: 'harbinger-ca' };
    return {
      store,
      keeper: new AuthorityKeeper({
        client: store as unknown as KubePort,
        secret,
        validityMs: 24 * HOUR,
        clock: new FakeClock(now),
        log,
      }),
    };
  };

  test('makes the authority once and then uses it', async () => {
    const { store, keeper } = make();
    const first = await keeper.ensure();
    const second = await keeper.ensure();
    expect(second.cert.fingerprint256).toBe(first.cert.fingerprint256);
    expect(store.writes).toBe(1);
  });

  test('uses the authority of the replica that was first to create it', async () => {
    const { store, keeper } = make();
    const theirs = makeSecret();
    store.meanwhile = () => store.put(theirs);
    expect((await keeper.ensure()).cert.toString()).toBe(decode(theirs.data?.['tls.crt']));
    expect(store.writes).toBe(1);
  });

  test('uses the authority of the replica that was first to replace it', async () => {
    const { store, keeper } = make(NOW + 17 * HOUR);
    store.put(makeSecret());
    const theirs = makeSecret(NOW + 17 * HOUR);
    store.meanwhile = () => store.put(theirs);
    expect((await keeper.ensure()).cert.toString()).toBe(decode(theirs.data?.['tls.crt']));
  });

  test('replaces an old one with overlap', async () => {
    const { store, keeper } = make(NOW + 17 * HOUR);
    const old = makeSecret();
    store.put(old);
    const authority = await keeper.ensure();
    expect(authority.trusted.map((c) => c.subject)).toEqual([
      authority.cert.subject,
      new X509Certificate(decode(old.data?.['tls.crt'])).subject,
    ]);
  });

  test('makes a new one when the Secret is deleted between reading and writing', async () => {
    const { store, keeper } = make(NOW + 17 * HOUR);
    store.put(makeSecret());
    store.meanwhile = () => {
      store.secret = undefined;
    };
    await expect(keeper.ensure()).resolves.toMatchObject({ trusted: expect.anything() });
  });

  test('gives up with a clear error when others keep writing', async () => {
    const { store, keeper } = make(NOW + 17 * HOUR);
    const interfere = (): void => {
      store.put(makeSecret());
      store.meanwhile = interfere;
    };
    interfere();
    await expect(keeper.ensure()).rejects.toThrow(/keeps being changed/);
  });
});
