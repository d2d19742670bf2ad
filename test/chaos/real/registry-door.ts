import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Stands in front of a registry and has its bad days: repositories that are denied, and a registry that is gone. */
export class RegistryDoor {
  readonly #server: Server;
  readonly #behind: URL;
  readonly #denied = new Set<string>();
  #shut = false;

  private constructor(server: Server, behind: string) {
    this.#server = server;
    this.#behind = new URL(behind);
  }

  /** @param behind URL of the registry */
  static async open(behind: string): Promise<RegistryDoor> {
    const server = createServer((incoming, response) => door.#pass(incoming, response));
    const door = new RegistryDoor(server, behind);
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return door;
  }

  /** `ip:port`, as image references name it. */
  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Connections end without an answer until `open`. */
  shut(): void {
    this.#shut = true;
    this.#server.closeAllConnections();
  }

  reopen(): void {
    this.#shut = false;
  }

  deny(repository: string): void {
    this.#denied.add(repository);
  }

  allow(repository: string): void {
    this.#denied.delete(repository);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  #pass(incoming: IncomingMessage, response: ServerResponse): void {
    if (this.#shut) return void incoming.socket.destroy();
    const path = incoming.url ?? '/';
    if ([...this.#denied].some((repository) => path.startsWith(`/v2/${repository}/`))) {
      response.writeHead(403, { 'content-type': 'application/json' });
      return void response.end('{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}');
    }
    const { host: _, ...headers } = incoming.headers;
    const { hostname, port } = this.#behind;
    const outgoing = request({ hostname, port, path, method: incoming.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    incoming.pipe(outgoing);
  }
}
