import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Seen {
  method: string;
  url: URL;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Answer = (request: Seen, response: ServerResponse) => void;

/** A small HTTP server that answers as the test says, for what a real API server cannot be made to send. */
export class HttpApi {
  readonly seen: Seen[] = [];
  connections = 0;
  #answer: Answer = (_, response) => response.writeHead(500).end();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<HttpApi> {
    const server = createServer((request, response) => void api.#take(request, response));
    const api = new HttpApi(server);
    server.on('connection', () => api.connections++);
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  answer(answer: Answer): void {
    this.#answer = answer;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const seen: Seen = {
      method: request.method ?? '',
      url: new URL(request.url ?? '/', this.url),
      headers: request.headers,
      body: Buffer.concat(chunks).toString('utf8'),
    };
    this.seen.push(seen);
    this.#answer(seen, response);
  }
}

export const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
};

export const status = (code: number, reason: string, message: string, more: object = {}): object => ({
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  code,
  reason,
  message,
  ...more,
});

/** Writes a kubeconfig for the server and returns its path; `user` is the kubeconfig's user entry. */
export function kubeconfig(server: string, user: object = { token: 'first-token' }, cluster: object = {}): string {
  const path = join(mkdtempSync(join(tmpdir(), 'harbinger-kube-')), 'config');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(path, JSON.stringify(config));
  return path;
}
