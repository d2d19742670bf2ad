import { connect } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import { defaultConfig } from '../../../src/config/load.js';
import { createLog } from '../../../src/observe/log.js';
import { systemClock } from '../../../src/observe/clock.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';
import { Answers } from '../../../src/webhook/answers.js';
import { readAuthority, regenerate } from '../../../src/webhook/certs/ca-secret.js';
import { signLeaf } from '../../../src/webhook/certs/leaf.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { Overload } from '../../../src/webhook/overload.js';
import { Reviewer } from '../../../src/webhook/reviewer.js';
import { AdmissionServer, MAX_BODY_BYTES } from '../../../src/webhook/server.js';
import { MemoryRegistry, manifestBody } from '../images/support.js';
import { makePolicy, makeRecord, DIGEST } from '../rewrite/builders.js';

export const GOOD_IMAGE = 'r.example.com/good:v1';
export const PINNED = `r.example.com/good@${DIGEST}`;
const HOUR = 3_600_000;
const NAMESPACE = { name: 'team', labels: { 'harbinger.dev/accelerate': 'enabled' }, annotations: {} };

export interface Reply {
  status: number;
  body: string;
}

/** The server with everything behind it that a Pod passes through, over TLS; facts and registry are in memory. */
export class HostileGround {
  readonly server: AdmissionServer;
  readonly overload: Overload;
  readonly registry = new MemoryRegistry().set(GOOD_IMAGE, manifestBody({ name: 'good' }));
  policies: readonly Policy[] = [makePolicy('p')];
  readonly #ca: string;

  constructor(requestMs?: number) {
    const log = createLog({ level: 'silent', name: 'test' });
    const metrics = new AdmissionMetrics(new Metrics(), () => performance.now());
    const data = regenerate(undefined, Date.now(), HOUR);
    const authority = readAuthority({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'ca' }, data });
    this.#ca = authority.cert.toString();
    const facts = {
      problem: undefined,
      policies: [] as readonly Policy[],
      namespace: () => Promise.resolve(NAMESPACE),
      records: () => [makeRecord(GOOD_IMAGE, PINNED)],
      landing: () => ({ platforms: undefined, now: {}, later: {}, key: '' }),
      quarantine: () => undefined,
    };
    Object.defineProperty(facts, 'policies', { get: () => this.policies });
    const answers = new Answers({ registry: () => this.registry, clock: systemClock, log });
    const reviewer = new Reviewer({
      config: defaultConfig,
      facts,
      answers,
      credentials: { of: () => Promise.reject(new Error('not asked here')) },
      tallies: { count: () => undefined },
      metrics,
      monotonic: () => performance.now(),
      log,
    });
    this.overload = new Overload({ limits: () => defaultConfig().budgets, lagMs: () => 0, maxBodyBytes: MAX_BODY_BYTES });
    this.server = new AdmissionServer({
      port: 0,
      host: '127.0.0.1',
      review: (request) => reviewer.review(request),
      overload: this.overload,
      metrics,
      log,
      ...(requestMs === undefined ? {} : { requestMs }),
    });
    this.server.setCertificate(signLeaf(authority, ['127.0.0.1'], Date.now(), HOUR).pair);
  }

  async stop(): Promise<void> {
    const closed = this.server.close();
    this.server.closeAll();
    await closed;
  }

  connect(): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: this.server.port, ca: this.#ca }, () => resolve(socket));
      socket.once('error', reject);
    });
  }

  /** Sends bytes on a connection of its own and returns what comes back until `answers` answers or the end of the connection. */
  async exchange(bytes: Buffer | string, answers = 1): Promise<Reply[]> {
    const socket = await this.connect();
    const replies = repliesOf(socket, answers);
    // A server that answers early may close before all is sent.
    socket.on('error', () => undefined);
    socket.write(bytes);
    const got = await replies;
    socket.destroy();
    return got;
  }

  async post(body: Buffer | string, headers: readonly string[] = ['content-type: application/json']): Promise<Reply> {
    const [reply] = await this.exchange(request(body, headers));
    if (reply === undefined) throw new Error('the connection ended without an answer');
    return reply;
  }
}

export function request(body: Buffer | string, headers: readonly string[] = []): Buffer {
  const bytes = Buffer.from(body);
  const head = ['POST /mutate?timeout=3s HTTP/1.1', 'host: x', ...headers, `content-length: ${bytes.length}`, '', ''];
  return Buffer.concat([Buffer.from(head.join('\r\n')), bytes]);
}

/** Collects whole HTTP answers. */
export function repliesOf(socket: TLSSocket, count: number): Promise<Reply[]> {
  return new Promise((resolve) => {
    const replies: Reply[] = [];
    let received = '';
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      received += text;
      for (let whole = readReply(received); whole !== undefined; whole = readReply(received)) {
        replies.push(whole.reply);
        received = received.slice(whole.length);
      }
      if (replies.length >= count) resolve(replies);
    });
    for (const event of ['end', 'close'] as const) socket.on(event, () => resolve(replies));
  });
}

function readReply(text: string): { reply: Reply; length: number } | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const length = end + 4 + Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  if (text.length < length) return undefined;
  return { reply: { status: Number(head.slice(9, 12)), body: text.slice(end + 4, length) }, length };
}
