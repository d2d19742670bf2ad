import type { Clock } from '../observe/clock.js';
import { sleep } from '../observe/clock.js';

/** The server as a drain sees it; `AdmissionServer` is one. */
export interface Drainable {
  sayGoodbye(): void;
  close(): Promise<void>;
  closeIdle(): void;
  closeAll(): void;
}

export interface DrainOptions {
  server: Drainable;
  /** Tells whoever routes here that this replica is going. */
  unready: () => void;
  clock: Clock;
  /** How long routing may take to notice; new connections are still served meanwhile. */
  propagationMs: number;
  /** Afterwards open connections are cut. */
  deadlineMs: number;
}

const SWEEP_MS = 250;

/**
 * Ends serving without losing an admission. From the start each answer closes its connection: that is the only way of closing
 * which cannot cross with a request on its way. Idle connections are closed only after the propagation delay, when routing has
 * stopped sending; `close()` alone would wait for them for the whole keep-alive time.
 */
export async function drain(options: DrainOptions): Promise<void> {
  const { server, unready, clock, propagationMs, deadlineMs } = options;
  unready();
  server.sayGoodbye();
  await sleep(clock, propagationMs);
  const closed = new AbortController();
  const done = server.close().finally(() => closed.abort());
  const end = clock.now() + deadlineMs;
  while (!closed.signal.aborted && clock.now() < end) {
    server.closeIdle();
    await sleep(clock, SWEEP_MS, closed.signal);
  }
  server.closeAll();
  await done;
}
