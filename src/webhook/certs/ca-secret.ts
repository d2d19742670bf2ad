import { createPrivateKey } from 'node:crypto';
import type { KeyObject, X509Certificate } from 'node:crypto';
import type { KubeObject } from '../../api/object.js';
import { createAuthority, notAfterOf, readBundle, renewAt } from './x509.js';

/** The authority's Secret as it stands in the API server. */
export interface CaSecret extends KubeObject {
  type?: string;
  /** Base64. `tls.crt` and `tls.key` are the current authority, `ca.crt` holds it and the one before. */
  data?: Record<string, string>;
}

/** An authority that can sign, with all that leaves of any replica may be signed by. */
export interface Authority {
  cert: X509Certificate;
  key: KeyObject;
  /** Current first. */
  trusted: readonly X509Certificate[];
}

/**
 * Why the Secret's authority has to be replaced, or undefined when it is good.
 * @param now epoch milliseconds
 */
export function caRequiresRegeneration(secret: CaSecret, now: number): string | undefined {
  const [certPem, keyPem] = [decode(secret, 'tls.crt'), decode(secret, 'tls.key')];
  if (certPem === '' || keyPem === '') return 'tls.crt or tls.key is missing';
  const cert = readBundle(certPem)[0];
  if (cert === undefined) return 'tls.crt holds no certificate';
  const key = readKey(keyPem);
  if (key === undefined) return 'tls.key holds no private key';
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') return 'tls.key is not a P-256 key';
  if (!cert.checkPrivateKey(key)) return 'tls.key does not belong to tls.crt';
  if (!cert.ca) return 'tls.crt is not a certificate authority';
  if (!readBundle(decode(secret, 'ca.crt')).some((c) => c.fingerprint256 === cert.fingerprint256))
    return 'ca.crt does not hold tls.crt';
  return ageProblem(cert, now);
}

function ageProblem(cert: X509Certificate, now: number): string | undefined {
  if (now < Date.parse(cert.validFrom)) return `tls.crt is not valid before ${cert.validFrom}`;
  if (now >= notAfterOf(cert)) return `tls.crt expired at ${cert.validTo}`;
  if (now >= renewAt(cert)) return `two thirds of the life of tls.crt are over; it expires at ${cert.validTo}`;
  return undefined;
}

/** The authority in a Secret that needs no regeneration. */
export function readAuthority(secret: CaSecret): Authority {
  const cert = readBundle(decode(secret, 'tls.crt'))[0];
  if (cert === undefined) throw new Error(`Secret ${secret.metadata.name}: tls.crt holds no certificate`);
  const others = readBundle(decode(secret, 'ca.crt')).filter((c) => c.fingerprint256 !== cert.fingerprint256);
  return { cert, key: createPrivateKey(decode(secret, 'tls.key')), trusted: [cert, ...others] };
}

/**
 * `data` of the Secret with a new authority. What the old one signed stays trusted until it expires: leaves of other
 * replicas and the API server's open configuration still go by it.
 */
export function regenerate(before: CaSecret | undefined, now: number, validityMs: number): Record<string, string> {
  const { cert, key } = createAuthority({ now, validityMs });
  const previous = before === undefined ? undefined : readBundle(decode(before, 'tls.crt'))[0];
  const keep = previous !== undefined && previous.ca && now < notAfterOf(previous) ? previous.toString() : '';
  return { 'tls.crt': encode(cert), 'tls.key': encode(key), 'ca.crt': encode(`${cert}${keep}`) };
}

function readKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

function decode(secret: CaSecret, key: string): string {
  return Buffer.from(secret.data?.[key] ?? '', 'base64').toString();
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64');
}
