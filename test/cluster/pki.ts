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

// Test clusters live for minutes; a day is enough and shows nobody a long-lived admin certificate.
const LIFETIME_MS = 24 * 3600 * 1000;
// Clocks of processes on one machine agree, but certificates have whole seconds only.
const BACKDATE_MS = 60_000;

/** Certificate authority of one test cluster. */
export class Pki {
  readonly caCert: string;
  readonly #ca: forge.pki.Certificate;
  readonly #key: forge.pki.rsa.PrivateKey;
  /** The authority's own key, for those who have to hand it to a component (Kueue's rotator wants it in its Secret). */
  readonly caKey: string;

  private constructor(ca: forge.pki.Certificate, key: string) {
    this.#ca = ca;
    this.caKey = key;
    this.#key = forge.pki.privateKeyFromPem(key);
    this.caCert = forge.pki.certificateToPem(ca);
  }

  static async create(commonName: string): Promise<Pki> {
    const pair = await rsaKeyPair();
    const cert = blank({ commonName }, pair.publicKey);
    cert.setIssuer(cert.subject.attributes);
    cert.setExtensions([
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
      { name: 'subjectKeyIdentifier' },
    ]);
    cert.sign(forge.pki.privateKeyFromPem(pair.privateKey), forge.md.sha256.create());
    return new Pki(cert, pair.privateKey);
  }

  /** Issues a certificate for client and server use. */
  async issue(request: CertificateRequest): Promise<KeyPair> {
    const pair = await rsaKeyPair();
    const cert = blank(request, pair.publicKey);
    cert.setIssuer(this.#ca.subject.attributes);
    const names = (request.addresses ?? []).map((a) => (isIP(a) ? { type: 7, ip: a } : { type: 2, value: a }));
    cert.setExtensions([
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      ...(names.length > 0 ? [{ name: 'subjectAltName', altNames: names }] : []),
    ]);
    cert.sign(this.#key, forge.md.sha256.create());
    return { cert: forge.pki.certificateToPem(cert), key: pair.privateKey };
  }
}

function blank(request: CertificateRequest, publicKey: string): forge.pki.Certificate {
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.publicKeyFromPem(publicKey);
  // A leading zero bit keeps the number positive, as DER wants it.
  cert.serialNumber = `00${randomBytes(16).toString('hex')}`;
  cert.validity.notBefore = new Date(Date.now() - BACKDATE_MS);
  cert.validity.notAfter = new Date(Date.now() + LIFETIME_MS);
  cert.setSubject([
    { shortName: 'CN', value: request.commonName },
    ...(request.organizations ?? []).map((value) => ({ shortName: 'O', value })),
  ]);
  return cert;
}

/** RSA 2048 key pair as PEM; made by Node's native code, since forge's takes seconds. */
export async function rsaKeyPair(): Promise<{ publicKey: string; privateKey: string }> {
  return promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    // PKCS#1, the one form that forge and all Go programs of a control plane read.
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });
}
