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
}

export type ReviewReading = { ok: true; request: AdmissionRequest } | { ok: false; uid: string | undefined; problem: string };

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
  const bad = (problem: string): ReviewReading => ({ ok: false, uid: uidFromHead(body), problem });
  const review = parseObject(body.toString());
  if (review === undefined) return bad('the body is not a JSON object');
  const request = record(review['request']);
  const uid = string(request?.['uid']);
  if (request === undefined || uid === undefined) return bad('the body is not an AdmissionReview with request.uid');
  const field = (name: string): string => string(request[name]) ?? '';
  return {
    ok: true,
    request: {
      uid,
      operation: field('operation'),
      resource: string(at(request, 'resource')['resource']) ?? '',
      subresource: field('subResource'),
      namespace: field('namespace'),
      name: field('name'),
      object: request['object'],
    },
  };
}

/** The answer: always allowed. Harbinger has no reason to refuse a Pod. */
export function answer(uid: string, ops: readonly PatchOp[] = []): string {
  const patch = ops.length === 0 ? {} : { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(ops)).toString('base64') };
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: { uid, allowed: true, ...patch },
  });
}
