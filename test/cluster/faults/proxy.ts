import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer, request as httpsRequest, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Gate } from './gate.js';

export interface ProxiedRequest {
  method: string;
  url: URL;
  watch: boolean;
  at: number;
  /** Status that the client got; 0 while there is none. */
  status: number;
  /** The API server saw it. */
  forwarded: boolean;
}

export interface Fault {
  /** Status to answer with in the API server's place. */
  status: number;
  reason: string;
  headers?: Record<string, string>;
  /** How many requests it hits; all until `end` when absent. */
  times?: number;
}

export interface FaultHandle {
  /** Requests hit so far. */
  readonly hits: number;
  end(): void;
}

type Match = (request: ProxiedRequest) => boolean;

interface OpenWatch {
  seen: ProxiedRequest;
  response: ServerResponse;
}

/**
 * Stands between clients and the real API server and makes its bad days: refusals by status, errors inside a watch, cut and half-open
 * connections. What no fault matches reaches the real server unchanged. It ends TLS, so clients need a token, not a certificate.
 */
export class FaultProxy {
  readonly requests: ProxiedRequest[] = [];
  readonly #server: Server;
  readonly #upstream: URL;
  readonly #agent: Agent;
  readonly #faults = new Set<{ match: Match; fault: Fault; hits: number }>();
  readonly #watches = new Set<OpenWatch>();
  #gate: Gate | undefined;

  private constructor(server: Server, upstream: URL, ca: string) {
    this.#server = server;
    this.#upstream = upstream;
    this.#agent = new Agent({ keepAlive: true, ca });
  }

  /** @param serving certificate for 127.0.0.1 by a CA that the clients trust */
  static async start(upstream: string, ca: string, serving: { cert: string; key: string }): Promise<FaultProxy> {
    const server = createServer(serving, (request, response) => proxy.#take(request, response));
    const proxy = new FaultProxy(server, new URL(upstream), ca);
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    proxy.#gate = await Gate.start((server.address() as AddressInfo).port);
    return proxy;
  }

  /** The TCP side: `freeze`, `thaw` and `cut`. */
  get gate(): Gate {
    if (this.#gate === undefined) throw new Error('the proxy has not started');
    return this.#gate;
  }

  get url(): string {
    return `https://127.0.0.1:${this.gate.port}`;
  }

  /** Answers matching requests itself with a Status object. */
  fail(match: Match, fault: Fault): FaultHandle {
    const entry = { match, fault, hits: 0 };
    this.#faults.add(entry);
    return {
      get hits() {
        return entry.hits;
      },
      end: () => void this.#faults.delete(entry),
    };
  }

  /** Writes one event into all open watches that match, and returns into how many. */
  inject(match: Match, event: object): number {
    const hit = [...this.#watches].filter(({ seen }) => match(seen));
    for (const { response } of hit) response.write(`${JSON.stringify(event)}\n`);
    return hit.length;
  }

  /** Watches that are open now. */
  watching(match: Match = () => true): number {
    return [...this.#watches].filter(({ seen }) => match(seen)).length;
  }

  async stop(): Promise<void> {
    await this.#gate?.stop();
    this.#agent.destroy();
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', this.#upstream);
    const seen: ProxiedRequest = {
      method: request.method ?? '',
      url,
      watch: url.searchParams.has('watch'),
      at: Date.now(),
      status: 0,
      forwarded: false,
    };
    this.requests.push(seen);
    const entry = [...this.#faults].find(({ match, fault, hits }) => hits < (fault.times ?? Infinity) && match(seen));
    if (entry === undefined) return this.#forward(request, response, seen);
    entry.hits++;
    const { status, reason, headers } = entry.fault;
    seen.status = status;
    request.resume();
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(statusObject(status, reason)));
  }

  #forward(request: IncomingMessage, response: ServerResponse, seen: ProxiedRequest): void {
    seen.forwarded = true;
    const { host: _, ...headers } = request.headers;
    const upstream = httpsRequest(seen.url, { agent: this.#agent, method: seen.method, headers }, (answer) => {
      seen.status = answer.statusCode ?? 0;
      response.writeHead(seen.status, answer.headers);
      // The client has to see the headers of a quiet watch, which pipe would keep back until the first event.
      response.flushHeaders();
      const watch = { seen, response };
      if (seen.watch && seen.status === 200) this.#watches.add(watch);
      response.on('close', () => this.#watches.delete(watch));
      answer.on('error', () => response.destroy());
      answer.on('aborted', () => response.destroy());
      answer.pipe(response);
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    request.pipe(upstream);
  }
}

export function statusObject(code: number, reason: string): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code, reason, message: `injected ${reason}` };
}
