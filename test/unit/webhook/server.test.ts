import { Agent, request as httpsRequest } from 'node:https';
import { afterEach, describe, expect, test } from '@jest/globals';
import { connect } from 'node:tls';
import { createLog } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { PatchOp } from '../../../src/rewrite/patch.js';
import type { AdmissionRequest } from '../../../src/webhook/admission-review.js';
import type { CaSecret } from '../../../src/webhook/certs/ca-secret.js';
import { readAuthority, regenerate } from '../../../src/webhook/certs/ca-secret.js';
import type { Leaf } from '../../../src/webhook/certs/leaf.js';
import { signLeaf } from '../../../src/webhook/certs/leaf.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import type { OverloadLimits } from '../../../src/webhook/overload.js';
import { Overload } from '../../../src/webhook/overload.js';
import { AdmissionServer } from '../../../src/webhook/server.js';

const log = createLog({ level: 'silent', name: 'test' });
const HOUR = 3_600_000;
const secret = (): CaSecret => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'ca' },
  data: regenerate(undefined, Date.now(), HOUR),
});
const authority = readAuthority(secret());
const newLeaf = (): Leaf => signLeaf(authority, ['127.0.0.1'], Date.now(), HOUR);
const body = (uid: string, more: object = {}): string => JSON.stringify({ request: { uid, operation: 'CREATE', ...more } });

interface Reply {
  status: number;
  text: string;
  connection: string | undefined;
}

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serve(
  review: (r: AdmissionRequest) => Promise<PatchOp[]>,
  limits: Partial<OverloadLimits> = {},
  maxBodyBytes = 1 << 20,
) {
  const metrics = new Metrics();
  const all: OverloadLimits = { maxInFlightRequests: 100, maxInFlightBytes: 1 << 24, eventLoopLagMs: 10_000, ...limits };
  const overload = new Overload({ limits: () => all, lagMs: () => 0, maxBodyBytes });
  const server = new AdmissionServer({
    port: 0,
    host: '127.0.0.1',
    review,
    overload,
    metrics: new AdmissionMetrics(metrics, () => performance.now()),
    log,
  });
  server.setCertificate(newLeaf().pair);
  await server.listen();
  const agent = new Agent({ keepAlive: true, ca: authority.cert.toString() });
  closers.push(async () => {
    agent.destroy();
    server.closeAll();
    await server.close();
  });
  const post = (text: string | Buffer, path = '/mutate'): Promise<Reply> =>
    new Promise((resolve, reject) => {
      const call = httpsRequest({ host: '127.0.0.1', port: server.port, path, method: 'POST', agent }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (c: Buffer) => chunks.push(c));
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            text: Buffer.concat(chunks).toString(),
            connection: response.headers.connection,
          }),
        );
      });
      call.on('error', reject);
      call.end(text);
    });
  const count = async (result: string): Promise<number> => {
    const line = (await metrics.text())
      .split('\n')
      .find((l) => l.startsWith(`harbinger_admission_requests_total{result="${result}"}`));
    return Number(line?.split(' ')[1]);
  };
  return { server, post, overload, metrics, count };
}

const noPatch = (): Promise<PatchOp[]> => Promise.resolve([]);
const responseOf = (reply: Reply): unknown => (JSON.parse(reply.text) as { response: unknown }).response;

describe('AdmissionServer', () => {
  test('answers with the patch, and counts it', async () => {
    const { post, count } = await serve(() => Promise.resolve([{ op: 'remove', path: '/x' }]));
    expect(responseOf(await post(body('u1')))).toMatchObject({ uid: 'u1', allowed: true, patchType: 'JSONPatch' });
    expect(await count('mutated')).toBe(1);
  });

  test('allows where the review throws', async () => {
    const { post, count } = await serve(() => Promise.reject(new Error('defect')));
    expect(responseOf(await post(body('u2')))).toEqual({ uid: 'u2', allowed: true });
    expect(await count('failed')).toBe(1);
  });

  test.each([
    ['garbage with a uid', '{"request":{"uid":"u3","object":{', 200, 'garbage'],
    ['garbage without', 'hello', 400, 'garbage'],
    ['nothing', '', 400, 'garbage'],
  ])('%s', async (_, text, status, result) => {
    const { post, count } = await serve(noPatch);
    const reply = await post(text);
    expect(reply.status).toBe(status);
    if (status === 200) expect(responseOf(reply)).toEqual({ uid: 'u3', allowed: true });
    expect(await count(result)).toBe(1);
  });

  test('another path is 404 with a word that helps', async () => {
    const { post } = await serve(noPatch);
    expect(await post('', '/other')).toMatchObject({ status: 404, text: expect.stringContaining('POST /mutate') });
  });

  test('a body above the limit is answered unread, and the connection goes on', async () => {
    const { post, count, overload } = await serve(noPatch, {}, 64 * 1024);
    const reply = await post(body('u4', { pad: 'x'.repeat(300_000) }));
    expect(responseOf(reply)).toEqual({ uid: 'u4', allowed: true });
    expect(responseOf(await post(body('u5')))).toEqual({ uid: 'u5', allowed: true });
    expect([await count('shed'), await count('unchanged'), overload.bytes, overload.requests]).toEqual([1, 1, 0, 0]);
  });

  test('above the number in flight Pods pass unread, and those in flight get their answer', async () => {
    const held: (() => void)[] = [];
    const { post, count, overload } = await serve(
      () => new Promise((resolve) => held.push(() => resolve([{ op: 'remove', path: '/x' }]))),
      { maxInFlightRequests: 2 },
    );
    const first = [post(body('a')), post(body('b'))];
    while (held.length < 2) await new Promise((r) => setImmediate(r));
    expect(responseOf(await post(body('c')))).toEqual({ uid: 'c', allowed: true });
    for (const release of held) release();
    expect((await Promise.all(first)).map(responseOf)).toMatchObject([{ uid: 'a', patchType: 'JSONPatch' }, { uid: 'b' }]);
    expect([await count('shed'), await count('mutated'), overload.requests]).toEqual([1, 2, 0]);
  });

  test('a caller that hangs up gives its place back', async () => {
    const { server, overload, count } = await serve(noPatch);
    const socket = connect({ host: '127.0.0.1', port: server.port, ca: authority.cert.toString() });
    await new Promise<void>((resolve) =>
      socket.write('POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{', () => resolve()),
    );
    while (overload.requests === 0) await new Promise((r) => setImmediate(r));
    socket.destroy();
    while (overload.requests > 0) await new Promise((r) => setImmediate(r));
    expect([await count('hung-up'), overload.bytes]).toEqual([1, 0]);
  });

  test('a new certificate serves new connections while open ones go on', async () => {
    const { server, post } = await serve(noPatch);
    const serialNow = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect({ host: '127.0.0.1', port: server.port, ca: authority.cert.toString() }, () => {
          resolve(socket.getPeerX509Certificate()?.serialNumber ?? '');
          socket.destroy();
        });
        socket.on('error', reject);
      });
    expect((await post(body('before'))).status).toBe(200);
    const next = newLeaf();
    server.setCertificate(next.pair);
    expect((await post(body('after'))).status).toBe(200);
    expect(await serialNow()).toBe(next.cert.serialNumber);
    expect(() => server.setCertificate({ cert: newLeaf().pair.cert, key: newLeaf().pair.key })).toThrow();
    expect(await serialNow()).toBe(next.cert.serialNumber);
  });

  test('closes connections only when it says goodbye', async () => {
    const { server, post } = await serve(noPatch);
    expect((await post(body('a'))).connection).toBe('keep-alive');
    server.sayGoodbye();
    expect((await post(body('b'))).connection).toBe('close');
  });

  test('a taken port is an error that names the way out', async () => {
    const { server } = await serve(noPatch);
    const second = new AdmissionServer({
      port: server.port,
      host: '127.0.0.1',
      review: noPatch,
      overload: new Overload({
        limits: () => ({ maxInFlightRequests: 1, maxInFlightBytes: 1, eventLoopLagMs: 1 }),
        lagMs: () => 0,
        maxBodyBytes: 1,
      }),
      metrics: new AdmissionMetrics(new Metrics(), () => 0),
      log,
    });
    await expect(second.listen()).rejects.toThrow(/choose another one with --port/);
  });
});
