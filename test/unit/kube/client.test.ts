import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeClient, type WatchEvent } from '../../../src/kube/client.js';
import { KubeError, isAlreadyExists, isConflict, isExpired, isUnreachable } from '../../../src/kube/errors.js';
import { RESOURCE } from '../../../src/kube/resources.js';
import { HttpApi, json, kubeconfig, status } from './http-api.js';

let api: HttpApi;
let client: KubeClient;

beforeEach(async () => {
  api = await HttpApi.start();
  client = await KubeClient.fromKubeconfig(kubeconfig(api.url), { userAgent: 'harbinger/test' });
});

afterEach(async () => {
  await client.close();
  await api.stop();
});

async function failure(call: Promise<unknown>): Promise<KubeError> {
  const error = await call.then(
    () => new Error('it worked'),
    (e: unknown) => e,
  );
  if (!(error instanceof KubeError)) throw error;
  return error;
}

const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'ns', name: 'p' } };

describe('requests as they are sent', () => {
  const daemonSet = { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { namespace: 'ns', name: 'd' } };
  const name = { namespace: 'ns', name: 'p' };
  const removal = { op: 'remove', path: '/a' } as const;
  interface Sent {
    what: string;
    call: (c: KubeClient) => Promise<unknown>;
    line: string;
    type?: string;
    body?: unknown;
  }
  test.each<Sent>([
    { what: 'get', call: (c) => c.get(RESOURCE.pods, name), line: 'GET /api/v1/namespaces/ns/pods/p' },
    { what: 'get of a cluster-scoped object', call: (c) => c.get(RESOURCE.nodes, { name: 'n' }), line: 'GET /api/v1/nodes/n' },
    {
      what: 'create',
      call: (c) => c.create(RESOURCE.daemonSets, daemonSet),
      line: 'POST /apis/apps/v1/namespaces/ns/daemonsets',
      type: 'application/json',
      body: daemonSet,
    },
    {
      what: 'json patch of a status',
      call: (c) =>
        c.patch(RESOURCE.workloads, { namespace: 'ns', name: 'w' }, { type: 'json', ops: [removal] }, { subresource: 'status' }),
      line: 'PATCH /apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w/status',
      type: 'application/json-patch+json',
      body: [removal],
    },
    {
      what: 'merge patch',
      call: (c) => c.patch(RESOURCE.pods, name, { type: 'merge', body: { a: null } }),
      line: 'PATCH /api/v1/namespaces/ns/pods/p',
      type: 'application/merge-patch+json',
      body: { a: null },
    },
    {
      what: 'apply',
      call: (c) => c.apply(RESOURCE.daemonSets, daemonSet, 'me'),
      line: 'PATCH /apis/apps/v1/namespaces/ns/daemonsets/d?fieldManager=me&force=true',
      type: 'application/apply-patch+yaml',
      body: daemonSet,
    },
    {
      what: 'delete with preconditions',
      call: (c) => c.delete(RESOURCE.pods, name, { uid: 'u' }),
      line: 'DELETE /api/v1/namespaces/ns/pods/p',
      type: 'application/json',
      body: { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Background', preconditions: { uid: 'u' } },
    },
  ])('$what', async ({ call, line, type, body }) => {
    api.answer((_, response) => json(response, 200, pod));
    await call(client);
    const [seen] = api.seen;
    expect(`${seen?.method} ${seen?.url.pathname}${seen?.url.search}`).toBe(line);
    expect(seen?.headers['content-type']).toBe(type);
    expect(seen?.body === '' ? undefined : JSON.parse(seen?.body ?? '')).toEqual(body);
    expect(seen?.headers).toMatchObject({
      authorization: 'Bearer first-token',
      'user-agent': 'harbinger/test',
      accept: 'application/json',
    });
  });

  test('a call without name or namespace never leaves: it would hit the whole collection', async () => {
    await expect(client.delete(RESOURCE.pods, { namespace: 'ns', name: '' })).rejects.toThrow('without a name');
    await expect(client.get(RESOURCE.pods, { name: 'p' })).rejects.toThrow('without its namespace');
    expect(api.seen).toHaveLength(0);
  });

  test('calls in a row share one connection', async () => {
    api.answer((_, response) => json(response, 200, pod));
    for (let i = 0; i < 20; i++) await client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' });
    expect(api.connections).toBeLessThanOrEqual(2);
  });

  test('failed answers free their connection as well', async () => {
    api.answer((_, response) => json(response, 500, { big: 'x'.repeat(10_000) }));
    for (let i = 0; i < 20; i++) await failure(client.create(RESOURCE.pods, pod));
    expect(api.connections).toBeLessThanOrEqual(2);
  });
});

describe('failures', () => {
  test.each<[string, number, string, (e: unknown) => boolean]>([
    ['a conflict', 409, 'Conflict', isConflict],
    ['an object that exists', 409, 'AlreadyExists', isAlreadyExists],
  ])('%s is told from the other 409', async (_what, code, reason, is) => {
    api.answer((_, response) => json(response, code, status(code, reason, 'words')));
    const error = await failure(client.create(RESOURCE.pods, pod));
    expect(is(error)).toBe(true);
    expect([isConflict, isAlreadyExists].filter((f) => f(error))).toHaveLength(1);
    expect(error.message).toBe(`create pods ns/p: 409 ${reason}: words`);
  });

  test('deleting what is not there is no failure; a failed precondition is one', async () => {
    api.answer((_, response) => json(response, 404, status(404, 'NotFound', 'gone')));
    await client.delete(RESOURCE.pods, { namespace: 'ns', name: 'p' });
    api.answer((_, response) => json(response, 409, status(409, 'Conflict', 'uid')));
    expect(isConflict(await failure(client.delete(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { uid: 'other' })))).toBe(true);
  });

  test('neither bodies nor tokens reach messages: an HTML page, the words about a Secret', async () => {
    api.answer((_, response) => response.writeHead(502, { 'x-secret': 'h34der' }).end('<html>secret page</html>'));
    const page = await failure(client.create(RESOURCE.pods, pod));
    expect(page.message).toBe('create pods ns/p: 502 HTTP 502');
    api.answer((_, response) => json(response, 422, status(422, 'Invalid', 'data: Invalid value: "c2VjcmV0"')));
    const secret = await failure(client.create(RESOURCE.secrets, { ...pod, kind: 'Secret' }));
    expect(secret.message).toBe('create secrets ns/p: 422 Invalid');
    expect(JSON.stringify([page, secret, String(secret.cause)])).not.toMatch(/token|h34der|c2VjcmV0/);
  });

  test('a call that is not answered ends at its deadline, also when the body stops in the middle', async () => {
    api.answer(() => undefined);
    const silent = await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { timeoutMs: 60 }));
    api.answer((_, response) => response.writeHead(200).write('{"kind":'));
    const half = await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { timeoutMs: 60 }));
    for (const error of [silent, half]) expect([error.status, error.reason, isUnreachable(error)]).toEqual([0, 'Timeout', true]);
    expect(half.message).toBe('get pods ns/p: the API server did not answer within 60 ms');
  });

  test('a peer that accepts and stays silent does not outlast the deadline, nor hold up the end', async () => {
    const sockets: Socket[] = [];
    const mute = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((done) => mute.listen(0, '127.0.0.1', done));
    const url = `https://127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const waiting = await KubeClient.fromKubeconfig(kubeconfig(url), { userAgent: 'harbinger/test' });
    const began = performance.now();
    const error = await failure(waiting.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { timeoutMs: 100 }));
    expect(error.reason).toBe('Timeout');
    const watch = waiting.watch(RESOURCE.pods, { signal: AbortSignal.timeout(100) });
    await expect(watch.next()).rejects.toThrow(/timeout/);
    await waiting.close();
    expect(performance.now() - began).toBeLessThan(2_000);
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => mute.close(done));
  });

  test('the caller can give up, and gets its own reason', async () => {
    const controller = new AbortController();
    api.answer(() => controller.abort(new Error('shutting down')));
    await expect(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { signal: controller.signal })).rejects.toThrow(
      'shutting down',
    );
  });

  test('a server that is away is unreachable', async () => {
    await api.stop();
    const error = await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }));
    expect(isUnreachable(error)).toBe(true);
    expect(error.message).toContain('ECONNREFUSED');
    api = await HttpApi.start();
  });

  test.each([
    [
      'an object larger than the cap',
      (r: Parameters<Parameters<HttpApi['answer']>[0]>[1]) => json(r, 200, { ...pod, x: 'x'.repeat(9 << 20) }),
      'TooLarge',
    ],
    ['what is not JSON', (r: Parameters<Parameters<HttpApi['answer']>[0]>[1]) => void r.writeHead(200).end('<html>'), 'Garbage'],
  ])('%s is refused', async (_what, answer, reason) => {
    api.answer((_, response) => answer(response));
    expect((await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }))).reason).toBe(reason);
  });
});

describe('429 and 503 with Retry-After', () => {
  test('a read sits out a short one, once', async () => {
    api.answer((_, response) =>
      api.seen.length === 1
        ? json(response, 429, status(429, 'TooManyRequests', 'busy'), { 'retry-after': '1' })
        : json(response, 200, pod),
    );
    await client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' });
    expect(api.seen).toHaveLength(2);
  });

  test('a second refusal, a long wait and a write go to the caller with the wait', async () => {
    api.answer((_, response) =>
      json(response, 503, status(503, 'ServiceUnavailable', 'busy', { details: { retryAfterSeconds: 1 } })),
    );
    expect((await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }))).retryAfterMs).toBe(1000);
    expect(api.seen).toHaveLength(2);
    api.answer((_, response) => json(response, 429, status(429, 'TooManyRequests', 'busy'), { 'retry-after': '20' }));
    expect((await failure(client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }))).retryAfterMs).toBe(20_000);
    expect((await failure(client.create(RESOURCE.pods, pod))).retryAfterMs).toBe(20_000);
    expect(api.seen).toHaveLength(4);
  });

  test('a Retry-After of a day is not believed', async () => {
    api.answer((_, response) => json(response, 429, {}, { 'retry-after': '86400' }));
    expect((await failure(client.create(RESOURCE.pods, pod))).retryAfterMs).toBe(300_000);
  });
});

describe('lists', () => {
  const item = (name: string): object => ({ metadata: { namespace: 'ns', name, resourceVersion: '1' } });

  test('are read page by page, and items say what they are', async () => {
    api.answer(({ url }, response) => {
      const last = url.searchParams.get('continue') === 'next';
      json(response, 200, {
        metadata: { resourceVersion: '7', ...(last ? {} : { continue: 'next' }) },
        items: [item(last ? 'b' : 'a')],
      });
    });
    const pages: KubeObject[][] = [];
    for await (const page of client.list(RESOURCE.pods, { labelSelector: 'a=b' })) pages.push(page);
    expect(pages.map((page) => page.map((o) => [o.apiVersion, o.kind, o.metadata.name]))).toEqual([
      [['v1', 'Pod', 'a']],
      [['v1', 'Pod', 'b']],
    ]);
    expect(api.seen.map(({ url }) => [url.searchParams.get('limit'), url.searchParams.get('labelSelector')])).toEqual([
      ['500', 'a=b'],
      ['500', 'a=b'],
    ]);
  });

  test('that expire half-way go on from the present state; one page alone fails', async () => {
    const expired = status(410, 'Expired', 'too old', { metadata: { continue: 'inconsistent' } });
    api.answer(({ url }, response) => {
      const token = url.searchParams.get('continue');
      if (token === 'stale') return json(response, 410, expired);
      json(response, 200, {
        metadata: { resourceVersion: '7', ...(token === null ? { continue: 'stale' } : {}) },
        items: [item(token ?? 'first')],
      });
    });
    const names: string[] = [];
    for await (const page of client.list(RESOURCE.pods)) names.push(...page.map((o) => o.metadata.name));
    expect(names).toEqual(['first', 'inconsistent']);
    expect(isExpired(await failure(client.listPage(RESOURCE.pods, { continue: 'stale' })))).toBe(true);
  });

  test('an answer that is no list is garbage, not an empty list', async () => {
    api.answer((_, response) => json(response, 200, {}));
    expect((await failure(client.listPage(RESOURCE.pods))).reason).toBe('Garbage');
  });
});

describe('watches', () => {
  const event = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;

  async function collect(signal?: AbortSignal): Promise<WatchEvent[]> {
    const events: WatchEvent[] = [];
    for await (const e of client.watch(RESOURCE.pods, {
      resourceVersion: '5',
      timeoutSeconds: 300,
      ...(signal ? { signal } : {}),
    }))
      events.push(e);
    return events;
  }

  test('ask for bookmarks and an end, and join lines that arrive in pieces', async () => {
    const text =
      event('ADDED', { ...pod, metadata: { ...pod.metadata, name: 'ä'.repeat(100) } }) +
      event('BOOKMARK', { metadata: { resourceVersion: '9' } });
    api.answer((_, response) => {
      const bytes = Buffer.from(text);
      response.writeHead(200).write(bytes.subarray(0, 151));
      setImmediate(() => response.end(bytes.subarray(151)));
    });
    const events = await collect();
    expect(events.map((e) => [e.type, e.object.metadata.name])).toEqual([
      ['ADDED', 'ä'.repeat(100)],
      ['BOOKMARK', undefined],
    ]);
    expect(Object.fromEntries(api.seen[0]?.url.searchParams ?? [])).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: '5',
      timeoutSeconds: '300',
    });
  });

  test.each([
    ['by status', (r: Parameters<Parameters<HttpApi['answer']>[0]>[1]) => json(r, 410, status(410, 'Expired', 'too old'))],
    [
      'in band',
      (r: Parameters<Parameters<HttpApi['answer']>[0]>[1]) =>
        void r.writeHead(200).end(event('ERROR', status(410, 'Expired', 'too old'))),
    ],
  ])('an expired version is the same error %s', async (_what, answer) => {
    api.answer((_, response) => answer(response));
    expect(isExpired(await failure(collect()))).toBe(true);
  });

  test('a cut connection is an error, and the unfinished line is not used', async () => {
    api.answer((_, response) => {
      response.writeHead(200).write(event('ADDED', pod) + '{"type":"DELE');
      setImmediate(() => response.destroy());
    });
    const events: string[] = [];
    const error = await failure(
      (async () => {
        for await (const e of client.watch(RESOURCE.pods)) events.push(e.type);
      })(),
    );
    expect(events).toEqual(['ADDED']);
    expect(isUnreachable(error)).toBe(true);
  });

  test('can be given up, whether quiet or not yet answered', async () => {
    for (const open of [true, false]) {
      const controller = new AbortController();
      api.answer((_, response) => {
        if (open) response.writeHead(200).flushHeaders();
        setImmediate(() => controller.abort(new Error('enough')));
      });
      await expect(collect(controller.signal)).rejects.toThrow('enough');
    }
  });

  test('hang up when the reader leaves', async () => {
    let closed: () => void = () => undefined;
    const hungUp = new Promise<void>((done) => (closed = done));
    api.answer((_, response) => {
      response.on('close', closed);
      response.writeHead(200).write(event('ADDED', pod));
    });
    for await (const _ of client.watch(RESOURCE.pods)) break;
    await hungUp;
  });

  test('do not take the connections of calls', async () => {
    const controller = new AbortController();
    api.answer(({ url }, response) =>
      url.searchParams.has('watch') ? void response.writeHead(200).flushHeaders() : json(response, 200, pod),
    );
    const watches = Array.from({ length: 40 }, () => collect(controller.signal).catch(() => undefined));
    await client.get(RESOURCE.pods, { namespace: 'ns', name: 'p' }, { timeoutMs: 2_000 });
    controller.abort();
    await Promise.all(watches);
  });
});
