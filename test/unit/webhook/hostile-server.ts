import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import { bundleProgram } from '../../cluster/program.js';
import type { HostileOptions } from './hostile-ground.js';
import type { Command, PolicyDraft, Started, State } from './hostile-main.js';

export interface Reply {
  status: number;
  body: string;
}

/** As in the manifests: what a replica is given. */
const NODE_OPTIONS = '--max-old-space-size=256';

/** The server in a process of its own, so that its memory can be seen while it works, and what calls it. */
export class HostileServer {
  readonly #child: ChildProcess;
  readonly #started: Started;

  private constructor(child: ChildProcess, started: Started) {
    this.#child = child;
    this.#started = started;
  }

  static async start(options: HostileOptions = {}): Promise<HostileServer> {
    const program = await bundleProgram('test/unit/webhook/hostile-main.ts');
    const child = fork(program, [JSON.stringify(options)], { env: { ...process.env, NODE_OPTIONS }, execArgv: [] });
    const [started] = (await once(child, 'message')) as [Started];
    return new HostileServer(child, started);
  }

  async stop(): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#child.kill();
    await gone;
  }

  /** What the server holds and has asked its registry for, after doing `command`. */
  async state(command: Command = {}): Promise<State> {
    const answered = once(this.#child, 'message');
    this.#child.send(command);
    return ((await answered) as [State])[0];
  }

  async setPolicies(policies: readonly PolicyDraft[]): Promise<void> {
    await this.state({ policies });
  }

  /** Most resident memory since the last call, MB, as the kernel counted it: no sample can miss a short peak. */
  peakMb(): number {
    const { pid } = this.#child;
    const kib = Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    return (kib * 1024) / 1e6;
  }

  connect(): Promise<TLSSocket> {
    const { port, ca } = this.#started;
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ca }, () => resolve(socket));
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
