import type { Server } from 'node:https';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { readAuthority, regenerate } from '../../../../src/webhook/certs/ca-secret.js';
import { signLeaf } from '../../../../src/webhook/certs/leaf.js';
import type { Target } from '../../../../tools/bench/load/connection.js';
import { burst, closedLoop, fixedRate, httpRequest } from '../../../../tools/bench/load/patterns.js';
import { review } from '../../../../tools/bench/load/reviews.js';

const HOUR = 3_600_000;
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const ALLOWED = JSON.stringify({ response: { uid: 'u', allowed: true } });

/** Answers after `stall(n)` milliseconds, for the n-th request. */
async function serve(stall: (n: number) => number = () => 0, body = ALLOWED): Promise<Target & { connections: () => number }> {
  const data = regenerate(undefined, Date.now(), HOUR);
  const authority = readAuthority({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'ca' }, data });
  const { pair } = signLeaf(authority, ['127.0.0.1'], Date.now(), HOUR);
  let [requests, connections] = [0, 0];
  const server = createServer(pair, (request, response) => {
    const wait = stall(requests++);
    request.resume().on('end', () => {
      const answer = (): void => void response.writeHead(200, { 'content-length': body.length }).end(body);
      if (wait > 0) setTimeout(answer, wait);
      else answer();
    });
  });
  server.on('secureConnection', () => connections++);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, ca: authority.cert.toString(), connections: () => connections };
}

const one = httpRequest('{}');
const rate = { connections: 1, most: 1, perSecond: 200, warmupMs: 0, forMs: 500 };

describe('the load generator', () => {
  test.each([
    ['replaces an image', '/spec/containers/0/image', 100],
    ['only notes decisions', '/metadata/annotations', 0],
  ])('counts as rewritten what %s', async (_, path, want) => {
    const patch = Buffer.from(JSON.stringify([{ op: 'replace', path, value: 'x' }])).toString('base64');
    const body = JSON.stringify({ response: { uid: 'u', allowed: true, patch } });
    expect((await fixedRate(await serve(() => 0, body), () => one, rate)).rewritten).toBe(want);
  });

  test('at a fixed rate makes that many requests, and charges a stall to all whom it kept waiting', async () => {
    // One answer takes 300 ms: 60 requests become due meanwhile. A generator that waits for answers would count one slow one.
    const { samples, rewritten } = await fixedRate(await serve((n) => (n === 10 ? 300 : 0)), () => one, rate);
    expect([samples.length, rewritten]).toEqual([100, 0]);
    expect(samples.filter((s) => s.ms > 100).length).toBeGreaterThan(30);
  });

  test('opens more connections when all are busy, up to the most', async () => {
    const target = await serve(() => 100);
    await fixedRate(target, () => one, { ...rate, most: 8 });
    expect(target.connections()).toBe(8);
  });

  test('in a closed loop asks again when it has its answer, and leaves the warm-up out', async () => {
    const { samples, answered } = await closedLoop(await serve(), () => one, { connections: 2, warmupMs: 100, forMs: 200 });
    expect(samples.length).toBeGreaterThan(0);
    expect(answered).toBeGreaterThan(samples.length);
  });

  test('in a burst sends all at once', async () => {
    const target = await serve(() => 100);
    const { samples } = await burst(
      target,
      Array.from({ length: 60 }, () => one),
    );
    expect([samples.length, target.connections(), new Set(samples.map((s) => s.at)).size]).toEqual([60, 60, 1]);
  });

  test.each([
    ['is not allowed', JSON.stringify({ response: { uid: 'u', allowed: false } })],
    ['is none', '{}'],
  ])('fails on an answer that %s', async (_, body) => {
    const target = await serve(() => 0, body);
    await expect(burst(target, [one])).rejects.toThrow('a review was answered');
  });
});

describe('a made-up review', () => {
  test('has 7 KiB whatever its images are, and a uid of its own', () => {
    const bodies = [review(1, 'team', ['r.example/a:v1']), review(2, 'team', ['r.example/a:v1', 'r.example/b:v1'])];
    expect(bodies.map((b) => b.length)).toEqual([7_168, 7_168]);
    const uids = bodies.map((b) => (JSON.parse(b) as { request: { uid: string } }).request.uid);
    expect(new Set(uids).size).toBe(2);
  });
});
