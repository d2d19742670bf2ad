import { generateKeyPair, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import forge from 'node-forge';

/** PEM certificate and private key. */
export interface KeyPair {
  cert: string;
  key: string;
}

export interface CertificateRequest {
  commonName: string;
  /** Kubernetes groups, for a client certificate. */
  organizations?: readonly string[];
  /** DNS names and IP addresses, for a serving certificate. */
  addresses?: readonly string[];
}

// Test clusters live for minutes, but Kueue's rotator replaces what ends within 90 days, and then serves another authority.
const LIFETIME_MS = 180 * 24 * 3600 * 1000;
// Clocks of processes on one machine agree, but certificates have whole seconds only.
const BACKDATE_MS = 60_000;

/**
 * Certificate authority of one test cluster. All its certificates share one key pair: making keys is what takes time, and
 * who may read the files of one component may read those of all.
 */
export class Pki {
  readonly caCert: string;
  /** The authority's own key, for those who have to hand it to a component (Kueue's rotator wants it in its Secret). */
  readonly caKey: string;
  readonly #ca: forge.pki.Certificate;
  readonly #leaf: RsaPair;

  private constructor(ca: forge.pki.Certificate, key: string, leaf: RsaPair) {
    this.#ca = ca;
    this.#leaf = leaf;
    this.caKey = key;
    this.caCert = forge.pki.certificateToPem(ca);
  }

  static async create(commonName: string): Promise<Pki> {
    const [pair, leaf] = await Promise.all([rsaKeyPair(), rsaKeyPair()]);
    const cert = blank({ commonName }, pair.publicKey);
    cert.setIssuer(cert.subject.attributes);
    cert.setExtensions([
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
      { name: 'subjectKeyIdentifier' },
      // Kueue's rotator keeps the authority in its Secret only if that is a certificate for this very name.
      { name: 'subjectAltName', altNames: [{ type: 2, value: 'kueue-ca' }] },
    ]);
    cert.sign(forge.pki.privateKeyFromPem(pair.privateKey), forge.md.sha256.create());
    return new Pki(cert, pair.privateKey, leaf);
  }

  /** Issues a certificate for client and server use. */
  issue(request: CertificateRequest): KeyPair {
    const cert = blank(request, this.#leaf.publicKey);
    cert.setIssuer(this.#ca.subject.attributes);
    const names = (request.addresses ?? []).map((a) => (isIP(a) ? { type: 7, ip: a } : { type: 2, value: a }));
    cert.setExtensions([
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      ...(names.length > 0 ? [{ name: 'subjectAltName', altNames: names }] : []),
    ]);
    cert.sign(forge.pki.privateKeyFromPem(this.caKey), forge.md.sha256.create());
    return { cert: forge.pki.certificateToPem(cert), key: this.#leaf.privateKey };
  }
}

interface RsaPair {
  publicKey: string;
  privateKey: string;
}

function blank(request: CertificateRequest, publicKey: string): forge.pki.Certificate {
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.publicKeyFromPem(publicKey);
  // The first byte is neither zero nor negative: of a number that begins with zeros forge takes one off, and Go reads none with more.
  cert.serialNumber = `01${randomBytes(15).toString('hex')}`;
  cert.validity.notBefore = new Date(Date.now() - BACKDATE_MS);
  cert.validity.notAfter = new Date(Date.now() + LIFETIME_MS);
  cert.setSubject([
    { shortName: 'CN', value: request.commonName },
    ...(request.organizations ?? []).map((value) => ({ shortName: 'O', value })),
  ]);
  return cert;
}

// Made by Node's native code, since forge's takes seconds; PKCS#1 is the one form that forge and all Go programs here read.
const rsaKeyPair = (): Promise<RsaPair> =>
  promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });

/** PEM key pair (P-256) by which tokens of ServiceAccounts are signed. */
export const tokenKeyPair = (): Promise<{ publicKey: string; privateKey: string }> =>
  promisify(generateKeyPair)('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
  });
