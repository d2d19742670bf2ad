import type { TLSSocket } from 'node:tls';
import { connect } from 'node:tls';

export interface Target {
  port: number;
  /** PEM of the authorities that the server's certificate may be of. */
  ca: string;
}

export interface Answer {
  status: number;
  allowed: boolean;
  /** Its patch replaces an image; one that only notes decisions does not count. */
  rewritten: boolean;
}

const HEADERS_END = '\r\n\r\n';

/**
 * One kept-alive TLS connection on which one request is under way at a time. Written by hand, because the clients of Node cost as much
 * as the servers that are to be measured, on the same few cores.
 */
export class Connection {
  readonly #socket: TLSSocket;
  #received = '';
  #waiting: ((answer: Answer | Error) => void) | undefined;

  private constructor(socket: TLSSocket) {
    this.#socket = socket;
    socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (text: string) => this.#take(text));
    socket.on('error', (error) => this.#settle(error));
    socket.on('close', () => this.#settle(new Error('the server closed the connection')));
  }

  static open({ port, ca }: Target): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ca, ALPNProtocols: ['http/1.1'] }, () => resolve(new Connection(socket)));
      socket.once('error', reject);
    });
  }

  /** False once the server has closed it, as it does with what is not used for long. */
  get isOpen(): boolean {
    return this.#socket.writable;
  }

  /** Sends a whole request; `done` gets its answer or why there is none. */
  send(request: Buffer, done: (answer: Answer | Error) => void): void {
    this.#waiting = done;
    this.#socket.write(request);
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(text: string): void {
    this.#received += text;
    const end = this.#received.indexOf(HEADERS_END);
    if (end < 0) return;
    const head = this.#received.slice(0, end);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1]);
    const body = this.#received.slice(end + HEADERS_END.length);
    if (body.length < length) return;
    this.#received = '';
    if (Number.isNaN(length)) return this.#settle(new Error(`an answer without content-length: ${head}`));
    this.#settle({
      status: Number(head.slice(9, 12)),
      allowed: body.includes('"allowed":true'),
      rewritten: replacesImage(body),
    });
  }

  #settle(answer: Answer | Error): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(answer);
  }
}

function replacesImage(body: string): boolean {
  const patch = /"patch":"([^"]*)"/.exec(body)?.[1];
  return patch !== undefined && Buffer.from(patch, 'base64').includes('/image"');
}
