import { describe, expect, test } from '@jest/globals';
import { HEAD_BYTES, answer, readReview, uidFromHead } from '../../../src/webhook/admission-review.js';

const review = (request: unknown): Buffer =>
  Buffer.from(JSON.stringify({ kind: 'AdmissionReview', apiVersion: 'admission.k8s.io/v1', request }));
const request = {
  uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
  kind: { group: '', version: 'v1', kind: 'Pod' },
  resource: { group: '', version: 'v1', resource: 'pods' },
  namespace: 'team',
  operation: 'CREATE',
  object: { metadata: {}, spec: {} },
};

describe('readReview', () => {
  test('reads what is needed of a review', () => {
    expect(readReview(review(request))).toEqual({
      ok: true,
      version: 'admission.k8s.io/v1',
      request: {
        uid: request.uid,
        operation: 'CREATE',
        resource: 'pods',
        subresource: '',
        namespace: 'team',
        name: '',
        object: request.object,
        dryRun: false,
      },
    });
  });

  test.each<[string, Buffer, string | undefined]>([
    ['a truncated review keeps its uid', review(request).subarray(0, 150), request.uid],
    ['a review without uid has none', review({ ...request, uid: undefined }), undefined],
    ['a uid that is no text', review({ ...request, uid: 7 }), undefined],
    ['an empty body', Buffer.alloc(0), undefined],
    ['a list', Buffer.from('[]'), undefined],
    ['null', Buffer.from('null'), undefined],
    ['bytes that are no UTF-8', Buffer.from([0xff, 0xfe, 0x00]), undefined],
    ['brackets without end', Buffer.from('['.repeat(100_000)), undefined],
    ['a uid that no API server makes', review({ ...request, uid: 'x'.repeat(1 << 20) }), undefined],
    ['a uid elsewhere is not taken', Buffer.from('{"object":{"uid":"x"},"request":[]'), undefined],
  ])('%s', (_, body, uid) => {
    expect(readReview(body)).toMatchObject({ ok: false, uid });
  });

  test.each([
    ['v1beta1 has the same fields', 'admission.k8s.io/v1beta1', { ok: true, version: 'admission.k8s.io/v1beta1' }],
    ['a version that is not known yet', 'admission.k8s.io/v2', { ok: false, version: 'admission.k8s.io/v1', uid: request.uid }],
  ])('%s', (_, apiVersion, want) => {
    expect(readReview(Buffer.from(JSON.stringify({ kind: 'AdmissionReview', apiVersion, request })))).toMatchObject(want);
  });

  test('deep nesting in the object does not matter', () => {
    const deep = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`;
    const body = Buffer.from(`{"request":{"uid":"u","object":${deep}}}`);
    expect(readReview(body)).toMatchObject({ ok: true, request: { uid: 'u' } });
  });
});

describe('uidFromHead', () => {
  test('looks at the first bytes only', () => {
    expect(uidFromHead(Buffer.from(`${' '.repeat(HEAD_BYTES)}${review(request).toString()}`))).toBeUndefined();
    expect(uidFromHead(review(request).subarray(0, 120))).toBe(request.uid);
  });
});

describe('answer', () => {
  test('is always allowed, with the uid', () => {
    expect(JSON.parse(answer('u'))).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u', allowed: true },
    });
  });

  test('carries the patch as base64', () => {
    const ops = [{ op: 'remove', path: '/a' } as const];
    const { response } = JSON.parse(answer('u', ops)) as { response: { patch: string; patchType: string } };
    expect(response.patchType).toBe('JSONPatch');
    expect(JSON.parse(Buffer.from(response.patch, 'base64').toString())).toEqual(ops);
  });
});
