import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Log } from './log.js';
import type { Metrics } from './metrics.js';

/** Says why a part of the process is not ready, or nothing when it is. Asked at each probe, so it must be cheap. */
export type ReadinessCheck = () => string | undefined;

export interface HealthOptions {
  /** 0 picks a free port; `port` tells which. */
  port: number;
  /** Address to listen on; all when absent, since kubelet probes come from the node. */
  host?: string;
  metrics: Metrics;
  log: Log;
}

/**
 * /healthz, /readyz and /metrics on a plain-HTTP port of their own, so that a network policy can tell them from the webhook.
 * /healthz only says that the event loop turns: a liveness probe that depends on the API server would restart every replica
 * together when that is away.
 */
export class HealthServer {
  readonly #options: HealthOptions;
  readonly #checks = new Map<string, ReadinessCheck>();
  readonly #server: Server;
  #draining = false;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Adds a named readiness check; the process is ready when none of them names a problem. */
  check(name: string, check: ReadinessCheck): void {
    this.#checks.set(name, check);
  }

  /** Not ready from now on: new traffic goes to other replicas while this one finishes. */
  drain(): void {
    this.#draining = true;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? this.#options.port;
  }

  /** Failing checks with their reasons, by name. */
  problems(): Record<string, string> {
    const failing: Record<string, string> = this.#draining ? { shutdown: 'this process is shutting down' } : {};
    for (const [name, check] of this.#checks) {
      const problem = check();
      if (problem !== undefined) failing[name] = problem;
    }
    return failing;
  }

  /** Rejects when the port is taken, naming it and the flag that changes it. */
  start(): Promise<void> {
    const { port, host } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', (error) =>
        reject(new Error(`health port ${port}: ${error.message}; choose another one with --health-port`, { cause: error })),
      );
      this.#server.listen({ port, host }, () => resolve());
    });
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?')[0];
    if (path === '/healthz') return send(response, 200, 'ok\n');
    if (path === '/readyz') return this.#ready(response);
    if (path !== '/metrics') return send(response, 404, 'this port serves /healthz, /readyz and /metrics\n');
    try {
      send(response, 200, await this.#options.metrics.text(), this.#options.metrics.registry.contentType);
    } catch (err) {
      this.#options.log.error({ err }, 'cannot render metrics');
      send(response, 500, 'cannot render metrics; see the log\n');
    }
  }

  #ready(response: ServerResponse): void {
    const problems = this.problems();
    const passing = [...this.#checks.keys()].filter((name) => problems[name] === undefined);
    const lines = [
      ...Object.entries(problems).map(([name, why]) => `[-] ${name}: ${why}`),
      ...passing.map((name) => `[+] ${name}`),
    ];
    const ok = Object.keys(problems).length === 0;
    send(response, ok ? 200 : 503, [...lines, ok ? 'ready' : 'not ready', ''].join('\n'));
  }
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
}
