import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a registry asks of whoever reads: user and password. */
export interface Login {
  username: string;
  password: string;
}

/** A door before a plain-HTTP registry that lets through only who logs in (basic authentication), and counts what goes through. */
export class PrivateRegistry {
  /** `METHOD path` of requests that were let through. */
  readonly served: string[] = [];
  readonly #server: Server;
  readonly #address: string;

  private constructor(server: Server, address: string) {
    this.#server = server;
    this.#address = address;
  }

  /** @param upstream `host:port`; @param at where to listen, default an own port on loopback */
  static async start(
    upstream: string,
    logins: readonly Login[],
    at: { address?: string; port?: number } = {},
  ): Promise<PrivateRegistry> {
    const { address = '127.0.0.1', port = 0 } = at;
    const accepted = new Set(logins.map(({ username, password }) => basic(username, password)));
    const server = createServer();
    const registry = new PrivateRegistry(server, address);
    server.on('request', (incoming: IncomingMessage, response: ServerResponse) => {
      if (!accepted.has(incoming.headers.authorization ?? '')) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end();
        return;
      }
      registry.served.push(`${incoming.method ?? ''} ${incoming.url ?? ''}`);
      forward(upstream, incoming, response);
    });
    await new Promise<void>((resolve) => server.listen(port, address, resolve));
    return registry;
  }

  get host(): string {
    return `${this.#address}:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

const basic = (username: string, password: string): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;

function forward(upstream: string, incoming: IncomingMessage, response: ServerResponse): void {
  const [hostname = '', port = ''] = upstream.split(':');
  const { authorization: _, ...headers } = incoming.headers;
  const onward = request({
    hostname,
    port,
    method: incoming.method,
    path: incoming.url,
    headers: { ...headers, host: upstream },
  });
  onward.on('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  incoming.pipe(onward);
}

/** A pull secret for `host` as a user makes it. */
export function pullSecret(
  namespace: string,
  name: string,
  host: string,
  { username, password }: Login,
): Record<string, unknown> & {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string };
} {
  const auths = { [host]: { username, password, auth: Buffer.from(`${username}:${password}`).toString('base64') } };
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    type: 'kubernetes.io/dockerconfigjson',
    stringData: { '.dockerconfigjson': JSON.stringify({ auths }) },
  };
}
