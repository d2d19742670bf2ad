import { X509Certificate, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import forge from 'node-forge';

const { asn1, pki } = forge;
type Node = forge.asn1.Asn1;

/** forge exports this function without a type. */
const { getTBSCertificate } = pki as typeof pki & { getTBSCertificate: (this: void, certificate: forge.pki.Certificate) => Node };

/** ecdsa-with-SHA256. Rule: RFC 5758 section 3.2, no parameters. */
const ECDSA_SHA256 = '1.2.840.10045.4.3.2';
/** Places in a TBSCertificate of version 3. Rule: RFC 5280 section 4.1. */
const TBS = { algorithm: 2, issuer: 3, subject: 5, publicKey: 6 } as const;
/** Clocks of API servers may be behind ours by so much. */
const MAX_SKEW_MS = 300_000;

export interface KeyPair {
  /** PEM. */
  cert: string;
  /** PEM, PKCS #8. */
  key: string;
}

export interface Validity {
  /** Epoch milliseconds. */
  now: number;
  validityMs: number;
}

/** A new P-256 authority. Each has a name of its own: verifiers pick an issuer by name, and two may be trusted at once. */
export function createAuthority(validity: Validity): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const serial = newSerial();
  const certificate = draft(`harbinger-ca-${serial.slice(2, 14)}`, serial, validity);
  certificate.setExtensions([
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
  ]);
  const pem = seal(certificate, { publicKey, signingKey: privateKey });
  return checked({ cert: pem, key: exportKey(privateKey) }, new X509Certificate(pem));
}

/**
 * A server certificate for DNS names and IP addresses, signed by `authority`; it never outlives its issuer.
 * Throws if the result does not verify.
 */
export function createLeaf(
  authority: { cert: X509Certificate; key: KeyObject },
  names: readonly string[],
  validity: Validity,
): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificate = draft('harbinger-webhook', newSerial(), validity);
  const last = notAfterOf(authority.cert);
  if (certificate.validity.notAfter.getTime() > last) certificate.validity.notAfter = new Date(last);
  certificate.setExtensions([
    { name: 'basicConstraints', cA: false, critical: true },
    { name: 'keyUsage', digitalSignature: true, critical: true },
    { name: 'extKeyUsage', serverAuth: true },
    // Go looks at alternative names only, never at the common name.
    {
      name: 'subjectAltName',
      altNames: names.map((name) => (isIP(name) > 0 ? { type: 7, ip: name } : { type: 2, value: name })),
    },
  ]);
  const pem = seal(certificate, { publicKey, signingKey: authority.key, issuer: authority.cert });
  return checked({ cert: pem, key: exportKey(privateKey) }, authority.cert);
}

/** Time at which two thirds of a certificate's life are over: the time to make the next one. */
export function renewAt(certificate: X509Certificate): number {
  const from = Date.parse(certificate.validFrom);
  return from + ((notAfterOf(certificate) - from) * 2) / 3;
}

export function notAfterOf(certificate: X509Certificate): number {
  return Date.parse(certificate.validTo);
}

/** The certificates of a PEM text in its order; text that is none is passed over. */
export function readBundle(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks.flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

/**
 * Positive, random, at most 20 bytes, hexadecimal. Rule: RFC 5280 section 4.1.2.2. The first byte is fixed and not zero: forge takes only
 * one zero byte off, and OpenSSL reads no number that begins with more of them than its sign needs. Exported for its test.
 */
export function newSerial(random: Buffer = randomBytes(15)): string {
  return `01${random.toString('hex')}`;
}

function draft(commonName: string, serial: string, { now, validityMs }: Validity): forge.pki.Certificate {
  const certificate = pki.createCertificate();
  const name = [{ shortName: 'CN', value: commonName }];
  certificate.serialNumber = serial;
  certificate.setSubject(name);
  certificate.setIssuer(name);
  certificate.validity.notBefore = new Date(now - Math.min(MAX_SKEW_MS, validityMs / 10));
  certificate.validity.notAfter = new Date(now + validityMs);
  certificate.siginfo.algorithmOid = ECDSA_SHA256;
  // forge knows no elliptic curves: this key only lets it encode the rest, and is replaced in `seal`.
  certificate.publicKey = pki.setRsaPublicKey(new forge.jsbn.BigInteger('3'), new forge.jsbn.BigInteger('3'));
  return certificate;
}

/** Encodes with forge, puts in the nodes that forge cannot make, and signs with node:crypto. */
function seal(
  certificate: forge.pki.Certificate,
  parts: { publicKey: KeyObject; signingKey: KeyObject; issuer?: X509Certificate },
): string {
  const tbs = getTBSCertificate(certificate);
  const nodes = children(tbs);
  const algorithm = asn1.create(asn1.Class.UNIVERSAL, asn1.Type.SEQUENCE, true, [
    asn1.create(asn1.Class.UNIVERSAL, asn1.Type.OID, false, asn1.oidToDer(ECDSA_SHA256).getBytes()),
  ]);
  nodes[TBS.algorithm] = algorithm;
  nodes[TBS.publicKey] = fromDer(parts.publicKey.export({ type: 'spki', format: 'der' }));
  // Names are compared byte by byte, so the issuer's own encoding is copied.
  if (parts.issuer !== undefined) nodes[TBS.issuer] = subjectOf(parts.issuer);
  const signature = sign('sha256', toDer(tbs), parts.signingKey);
  const whole = asn1.create(asn1.Class.UNIVERSAL, asn1.Type.SEQUENCE, true, [
    tbs,
    algorithm,
    asn1.create(asn1.Class.UNIVERSAL, asn1.Type.BITSTRING, false, `\0${signature.toString('latin1')}`),
  ]);
  return new X509Certificate(toDer(whole)).toString();
}

function subjectOf(certificate: X509Certificate): Node {
  const tbs = children(fromDer(certificate.raw))[0];
  const subject = tbs === undefined ? undefined : children(tbs)[TBS.subject];
  if (subject === undefined) throw new Error('authority certificate has no subject');
  return subject;
}

function children(node: Node): Node[] {
  if (typeof node.value === 'string') throw new Error('ASN.1 node has no children');
  return node.value;
}

function fromDer(der: Buffer): Node {
  return asn1.fromDer(der.toString('latin1'));
}

function toDer(node: Node): Buffer {
  return Buffer.from(asn1.toDer(node).getBytes(), 'latin1');
}

function exportKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** A certificate that does not verify must never reach a server, where it would silently take the webhook away. */
function checked(pair: KeyPair, issuer: X509Certificate): KeyPair {
  const certificate = new X509Certificate(pair.cert);
  const sound =
    certificate.checkIssued(issuer) &&
    certificate.verify(issuer.publicKey) &&
    certificate.publicKey.equals(createPublicKey(pair.key));
  if (!sound) throw new Error(`certificate ${certificate.subject} made for ${issuer.subject} does not verify`);
  return pair;
}
