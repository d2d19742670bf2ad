import type { Answer, Target } from './connection.js';
import { Connection } from './connection.js';

/** One answered request. */
export interface Sample {
  /** When the request was due, epoch milliseconds. */
  at: number;
  /** From then to its answer, milliseconds. */
  ms: number;
}

export interface Load {
  samples: Sample[];
  /** Answers that replace an image, of the samples. */
  rewritten: number;
  /** All answers, those of the warm-up included. */
  answered: number;
  /** From the first request that counts to the last answer. */
  seconds: number;
}

/** Wraps a review as a request; the path carries a timeout as that of an API server does. */
export function httpRequest(body: string): Buffer {
  const head = `POST /mutate?timeout=3s HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.from(head + body);
}

/** Collects answers; one that is no permission ends the run, because its time would mean nothing. */
class Tally {
  readonly samples: Sample[] = [];
  rewritten = 0;
  answered = 0;
  #first = Infinity;
  #last = 0;

  /**
   * Returns what is wrong with the answer.
   * @param due epoch milliseconds, with fractions
   * @param counts false in the warm-up
   */
  add(due: number, answer: Answer | Error, counts = true): Error | undefined {
    if (answer instanceof Error) return answer;
    if (answer.status !== 200 || !answer.allowed) return new Error(`a review was answered with status ${answer.status}`);
    this.answered++;
    if (!counts) return undefined;
    const now = epochMs();
    this.#first = Math.min(this.#first, due);
    this.#last = now;
    this.samples.push({ at: due, ms: now - due });
    if (answer.rewritten) this.rewritten++;
    return undefined;
  }

  get load(): Load {
    return {
      samples: this.samples,
      rewritten: this.rewritten,
      answered: this.answered,
      seconds: (this.#last - this.#first) / 1000,
    };
  }
}

export const epochMs = (): number => performance.timeOrigin + performance.now();

/** As many requests as the server takes: each connection sends the next one when it has its answer. */
export async function closedLoop(
  target: Target,
  next: () => Buffer | undefined,
  { connections, warmupMs, forMs }: { connections: number; warmupMs: number; forMs: number },
): Promise<Load> {
  const tally = new Tally();
  const from = epochMs() + warmupMs;
  const run = async (): Promise<void> => {
    const connection = await Connection.open(target);
    await new Promise<void>((resolve, reject) => {
      const go = (): void => {
        const due = epochMs();
        const request = due < from + forMs ? next() : undefined;
        if (request === undefined) return resolve();
        connection.send(request, (answer) => {
          const wrong = tally.add(due, answer, due >= from);
          if (wrong === undefined) go();
          else reject(wrong);
        });
      };
      go();
    });
    connection.close();
  };
  await Promise.all(Array.from({ length: connections }, run));
  return tally.load;
}

const TICK_MS = 1;

/**
 * So many requests a second, whatever the server does. A request is timed from when it was due, also where it had to wait for a
 * connection: a server that stalls is charged for all whom it kept waiting. What this process itself wakes up too late is not charged:
 * requests are due at the tick that finds them. `most` > `connections` opens more when all are busy, as API servers do.
 */
export async function fixedRate(
  target: Target,
  next: () => Buffer,
  options: { connections: number; most: number; perSecond: number; warmupMs: number; forMs: number },
): Promise<Load> {
  const { connections, most, perSecond, warmupMs, forMs } = options;
  const tally = new Tally();
  const idle = await openMany(target, connections);
  const all = new Set(idle);
  const waiting: number[] = [];
  let opening = 0;
  const started = epochMs();
  const total = Math.floor((perSecond * (warmupMs + forMs)) / 1000);
  let made = 0;
  let answered = 0;

  await new Promise<void>((resolve, reject) => {
    const open = (): void => {
      opening++;
      Connection.open(target).then((connection) => {
        opening--;
        all.add(connection);
        idle.push(connection);
        dispatch();
      }, reject);
    };
    const dispatch = (): void => {
      while (waiting.length > 0) {
        const connection = idle.pop();
        if (connection === undefined) break;
        if (!connection.isOpen) {
          all.delete(connection);
          continue;
        }
        const due = waiting.shift() ?? 0;
        connection.send(next(), (answer) => {
          const wrong = tally.add(due, answer, due >= started + warmupMs);
          if (wrong !== undefined) return reject(wrong);
          idle.push(connection);
          if (++answered === total) resolve();
          else dispatch();
        });
      }
      for (let missing = waiting.length - opening; missing > 0 && all.size + opening < most; missing--) open();
    };
    const tick = (): void => {
      const now = epochMs();
      const dueByNow = Math.min(total, Math.floor(((now - started) * perSecond) / 1000));
      for (; made < dueByNow; made++) waiting.push(now);
      dispatch();
      if (made < total) setTimeout(tick, TICK_MS);
    };
    tick();
  });
  for (const connection of all) connection.close();
  return tally.load;
}

/** Handshakes are not what is measured, and too many at once would be refused by the listen queue. */
async function openMany(target: Target, count: number): Promise<Connection[]> {
  const connections: Connection[] = [];
  while (connections.length < count) {
    const next = Array.from({ length: Math.min(50, count - connections.length) }, () => Connection.open(target));
    connections.push(...(await Promise.all(next)));
  }
  return connections;
}

/** All at once, each on a connection of its own that is open already. */
export async function burst(target: Target, requests: readonly Buffer[]): Promise<Load> {
  const tally = new Tally();
  const connections = await openMany(target, requests.length);
  const due = epochMs();
  await Promise.all(
    requests.map(
      (request, i) =>
        new Promise<void>((resolve, reject) =>
          connections[i]?.send(request, (answer) => {
            const wrong = tally.add(due, answer);
            if (wrong === undefined) resolve();
            else reject(wrong);
          }),
        ),
    ),
  );
  for (const connection of connections) connection.close();
  return tally.load;
}
