import { createHash } from 'node:crypto';
import { format, isDigest } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { Answer } from './http.js';

/** The digest of the exact bytes; it must be the one that was asked for and the one that the registry claims. Throws RegistryError. */
export function verifiedDigest(answer: Answer, reference: Reference, wanted: string | undefined): string {
  const header = answer.headers['docker-content-digest'];
  const claimed = header !== undefined && isDigest(header) ? header : undefined;
  const wrong = [wanted, claimed].find((digest) => digest !== undefined && digest !== digestOf(answer.body, digest));
  if (wrong === undefined) return wanted ?? claimed ?? digestOf(answer.body);
  throw new RegistryError(
    `registry ${reference.registry} sent other bytes than ${wrong} for ${format(reference)}; the answer is damaged or forged and was dropped`,
    { outcome: 'registry-error', host: reference.registry, status: answer.status },
  );
}

/** Digest of `body` by the algorithm of `like`. */
export function digestOf(body: Buffer | string, like = 'sha256:'): string {
  const algorithm = like.slice(0, like.indexOf(':'));
  return `${algorithm}:${createHash(algorithm).update(body).digest('hex')}`;
}
