import { clip } from '../api/conditions.js';
import { at, parseObject, record, string } from '../api/json.js';
import type { PatchOp } from '../rewrite/patch.js';

/** What rewriting needs of `request` of an AdmissionReview (admission.k8s.io/v1). */
export interface AdmissionRequest {
  uid: string;
  operation: string;
  resource: string;
  subresource: string;
  /** Always set for namespaced resources; the object's own field may be empty on create. */
  namespace: string;
  /** Of the object; empty where a name is generated. */
  name: string;
  object: unknown;
  /** What is there already; null on create. */
  oldObject: unknown;
  /** Nothing of this request will be stored. */
  dryRun: boolean;
}

export type ReviewReading =
  | { ok: true; version: ReviewVersion; request: AdmissionRequest }
  | { ok: false; version: ReviewVersion; uid: string | undefined; problem: string };

const VERSIONS = ['admission.k8s.io/v1', 'admission.k8s.io/v1beta1'] as const;
/** Both have the same fields; an API server drops an answer in another version than that of its question. */
export type ReviewVersion = (typeof VERSIONS)[number];

/** An API server's uids are UUIDs. A longer one would only make the answer large. */
const MAX_UID = 128;

/** How much of a body is searched for the uid when the rest is not read; the API server writes the uid first. */
export const HEAD_BYTES = 1024;

/** The request's uid from the first bytes of a body, however the rest looks. */
export function uidFromHead(head: Buffer): string | undefined {
  const match = /"request"\s*:\s*\{[^{}]*?"uid"\s*:\s*"([A-Za-z0-9._:-]{1,128})"/.exec(
    head.subarray(0, HEAD_BYTES).toString('latin1'),
  );
  return match?.[1];
}

/** Parses a whole body. Total: of garbage, at least the uid is saved, because only an answer with it lets the Pod pass quietly. */
export function readReview(body: Buffer): ReviewReading {
  const review = parseObject(body.toString());
  const named = string(review?.['apiVersion']) ?? VERSIONS[0];
  const known = VERSIONS.find((v) => v === named);
  const version = known ?? VERSIONS[0];
  const bad = (problem: string): ReviewReading => ({ ok: false, version, uid: uidFromHead(body), problem });
  if (review === undefined) return bad('the body is not a JSON object');
  if (known === undefined) return bad(`apiVersion ${clip(named, 80)} is none of ${VERSIONS.join(', ')}`);
  const request = record(review['request']);
  const uid = string(request?.['uid']);
  if (request === undefined || uid === undefined || uid.length > MAX_UID)
    return bad(`the body is not an AdmissionReview with a request.uid of at most ${MAX_UID} characters`);
  const field = (name: string): string => string(request[name]) ?? '';
  return {
    ok: true,
    version,
    request: {
      uid,
      operation: field('operation'),
      resource: string(at(request, 'resource')['resource']) ?? '',
      subresource: field('subResource'),
      namespace: field('namespace'),
      name: field('name'),
      object: request['object'],
      oldObject: request['oldObject'],
      dryRun: request['dryRun'] === true,
    },
  };
}

/** The answer: always allowed. Harbinger has no reason to refuse a Pod. */
export function answer(uid: string, ops: readonly PatchOp[] = [], version: ReviewVersion = VERSIONS[0]): string {
  // Put together as a text: base64 and the rest need no escapes, which JSON.stringify would look for in the whole patch.
  const patch =
    ops.length === 0 ? '' : `,"patchType":"JSONPatch","patch":"${Buffer.from(JSON.stringify(ops)).toString('base64')}"`;
  return `{"apiVersion":"${version}","kind":"AdmissionReview","response":{"uid":${JSON.stringify(uid)},"allowed":true${patch}}}`;
}
