import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { INSTALL } from '../api/names.js';
import type { Log } from '../observe/log.js';
import type { PatchOp } from '../rewrite/patch.js';
import type { AdmissionRequest, ReviewVersion } from './admission-review.js';
import { answer, readReview, uidFromHead } from './admission-review.js';
import type { Body } from './body.js';
import { readBody } from './body.js';
import type { AdmissionMetrics, RequestResult } from './metrics.js';
import type { Overload } from './overload.js';

/** Largest body that is read. An object has at most 3 MB, and a review may hold two of them. */
export const MAX_BODY_BYTES = 7 * 1024 * 1024;
/** API servers keep idle connections for about 90 s; whoever closes first must be them, or requests meet a closed socket. */
const KEEP_ALIVE_MS = 95_000;
/**
 * Time for a whole request to arrive. API servers send it at once; but what they open and do not use yet counts from its start too, so
 * this is not shorter than it has to be.
 */
const REQUEST_MS = 10_000;
/** Node looks for late requests and handshakes this often; its default of 30 s would make all limits above 30 s. */
const CHECK_MS = 1_000;
/** A few API servers with all that they handle at once; a connection costs some 40 kB. Whoever is above it is refused at once. */
const MAX_CONNECTIONS = 2_000;

export interface AdmissionServerOptions {
  /** 0 picks a free port; `port` tells which. */
  port: number;
  host?: string;
  /** Decides about one Pod; whatever it throws, the Pod passes. */
  review: (request: AdmissionRequest) => Promise<PatchOp[]>;
  overload: Overload;
  metrics: AdmissionMetrics;
  log: Log;
  /** Time for a request or a handshake to arrive whole, milliseconds; default 10,000. */
  requestMs?: number;
}

/** A reply, and how it is counted. */
interface Reply {
  status: 200 | 400;
  body: string;
  result: RequestResult;
}

/**
 * The HTTPS end of the webhook: HTTP/1.1 with long keep-alive, as API servers use it. Answers `allowed: true` to whatever has a
 * uid, also to what it could not or would not read.
 */
export class AdmissionServer {
  readonly #options: AdmissionServerOptions;
  readonly #server: Server;
  #closing = false;

  constructor(options: AdmissionServerOptions) {
    this.#options = options;
    const requestMs = options.requestMs ?? REQUEST_MS;
    this.#server = createServer(
      {
        ALPNProtocols: ['http/1.1'],
        minVersion: 'TLSv1.2',
        handshakeTimeout: requestMs,
        keepAliveTimeout: KEEP_ALIVE_MS,
        headersTimeout: requestMs,
        requestTimeout: requestMs,
        connectionsCheckingInterval: Math.min(CHECK_MS, requestMs),
      },
      (request, response) => this.#route(request, response),
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('tlsClientError', (err) => options.log.debug({ err }, 'TLS handshake failed'));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? this.#options.port;
  }

  /** New handshakes get this certificate; open connections keep theirs. Throws, and keeps the old one, if the pair is bad. */
  setCertificate(pair: { cert: string; key: string }): void {
    this.#server.setSecureContext({ cert: pair.cert, key: pair.key, minVersion: 'TLSv1.2' });
  }

  /** Rejects when the port is taken. */
  listen(): Promise<void> {
    const { port, host } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', (error) =>
        reject(new Error(`webhook port ${port}: ${error.message}; choose another one with --port`, { cause: error })),
      );
      this.#server.listen({ port, host }, () => resolve());
    });
  }

  /** From now on each answer ends its connection, so that callers come back elsewhere. */
  sayGoodbye(): void {
    this.#closing = true;
  }

  /** Takes no new connections; resolves when the last one is gone. `closeIdle` and `closeAll` hurry it. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  closeIdle(): void {
    this.#server.closeIdleConnections();
  }

  closeAll(): void {
    this.#server.closeAllConnections();
  }

  /** One path; API servers add a query with their timeout to it. */
  #route(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url?.split('?', 1)[0];
    if (path === INSTALL.webhookPath && request.method === 'POST') return void this.#serve(request, response);
    // This text ends up in the API server's log.
    const text = `this port serves POST ${INSTALL.webhookPath}\n`;
    const headers = { 'content-type': 'text/plain', 'content-length': text.length, allow: 'POST' };
    response.writeHead(path === INSTALL.webhookPath ? 405 : 404, headers).end(text);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { overload, metrics } = this.#options;
    const observe = metrics.start();
    const entry = overload.enter();
    try {
      const body = await readBody(request, (bytes) => (typeof entry === 'string' ? entry : entry.take(bytes)));
      if (body.kind === 'gone') return observe('hung-up');
      const reply = await this.#reply(body);
      if (this.#closing) response.setHeader('connection', 'close');
      response
        .writeHead(reply.status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(reply.body) })
        .end(reply.body);
      observe(reply.result);
    } finally {
      if (typeof entry !== 'string') entry.leave();
    }
  }

  async #reply(body: Exclude<Body, { kind: 'gone' }>): Promise<Reply> {
    if (body.kind === 'head') {
      this.#options.metrics.shed(body.why);
      return this.#unread(uidFromHead(body.bytes), 'shed', `overload: ${body.why}`);
    }
    const reading = readReview(body.bytes);
    if (!reading.ok) return this.#unread(reading.uid, 'garbage', reading.problem, reading.version);
    const { request, version } = reading;
    try {
      const ops = await this.#options.review(request);
      return { status: 200, body: answer(request.uid, ops, version), result: ops.length === 0 ? 'unchanged' : 'mutated' };
    } catch (err) {
      this.#options.log.error({ err, uid: request.uid }, 'review failed, Pod left alone');
      return { status: 200, body: answer(request.uid, [], version), result: 'failed' };
    }
  }

  #unread(uid: string | undefined, result: RequestResult, problem: string, version?: ReviewVersion): Reply {
    this.#options.log.warn({ uid, problem }, 'admission not read, Pod left alone');
    if (uid === undefined) return { status: 400, body: JSON.stringify({ error: problem }), result };
    return { status: 200, body: answer(uid, [], version), result };
  }
}
