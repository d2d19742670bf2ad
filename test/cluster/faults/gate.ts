import { connect, createServer, type Server, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';

/**
 * A TCP forwarder that can stop forwarding while all connections stay open: what a client sees of a peer that lost its power, or of
 * a firewall that forgot the connection. Works below TLS, so clients with certificates pass too.
 */
export class Gate {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Those through which nothing passes now. */
  readonly #silent = new Set<Socket>();
  #frozen = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(port: number): Promise<Gate> {
    const server = createServer({ pauseOnConnect: true }, (client) => gate.#join(client, port));
    const gate = new Gate(server);
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return gate;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Connections that clients hold now. */
  get connections(): number {
    return this.#sockets.size / 2;
  }

  /**
   * From now on nothing passes on the open connections, in either direction. New ones are accepted and stay silent too (the network
   * is gone), or work as ever with `newOnesWork` (only the old connections were forgotten).
   */
  freeze({ newOnesWork = false } = {}): void {
    this.#frozen = !newOnesWork;
    for (const socket of this.#sockets) {
      this.#silent.add(socket);
      socket.pause();
    }
  }

  thaw(): void {
    this.#frozen = false;
    this.#silent.clear();
    for (const socket of this.#sockets) socket.resume();
  }

  /** Resets every connection; new ones are let through. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((done) => this.#server.close(done));
  }

  #join(client: Socket, port: number): void {
    const backend = connect(port, '127.0.0.1');
    this.#forward(client, backend);
    this.#forward(backend, client);
    if (!this.#frozen) client.resume();
  }

  #forward(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.on('data', (chunk) => {
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', () => {
        if (!this.#silent.has(from)) from.resume();
      });
    });
    from.on('end', () => to.end());
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      this.#silent.delete(from);
      to.destroy();
    });
    if (!this.#frozen) return;
    this.#silent.add(from);
    from.pause();
  }
}
