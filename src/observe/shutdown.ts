import type { Clock } from './clock.js';
import { systemClock } from './clock.js';
import type { Log } from './log.js';

/** One part of going down; steps run in the order in which they were given, each one after the other. */
export interface ShutdownStep {
  name: string;
  run: () => Promise<void> | void;
}

/** What of `process` a shutdown needs. */
export interface ProcessPort {
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  exit(code: number): void;
}

export interface ShutdownOptions {
  /** All steps together; afterwards the process exits whatever is left. Kubernetes kills after 30 s. */
  deadlineMs?: number;
  clock?: Clock;
  process?: ProcessPort;
}

export interface Shutdown {
  /** Aborted when going down begins. */
  readonly signal: AbortSignal;
  /** Appends steps: the process installs the handler first and learns later what there is to stop. */
  add(...steps: ShutdownStep[]): void;
  /** Goes down by ourselves, for example because the Lease was lost; `code` is the exit code. */
  begin(why: string, code?: number): void;
}

/**
 * Installs the handlers for SIGTERM and SIGINT; call it before anything else, because Node as process 1 ignores signals that
 * have no handler. A second signal exits at once. A promise that nobody handles is a defect of ours: it is logged and the process
 * ends, since every state can be rebuilt from the API server.
 */
export function onShutdown(log: Log, steps: readonly ShutdownStep[] = [], options: ShutdownOptions = {}): Shutdown {
  const { deadlineMs = 25_000, clock = systemClock, process: proc = process } = options;
  const all = [...steps];
  const abort = new AbortController();

  const begin = (why: string, code = 0): void => {
    if (abort.signal.aborted) return;
    log.info({ why, steps: all.map((s) => s.name) }, 'shutting down');
    let running = 'nothing';
    clock.setTimeout(() => {
      log.error({ step: running, deadlineMs }, 'shutdown deadline passed, exiting with a step unfinished');
      proc.exit(code === 0 ? 1 : code);
    }, deadlineMs);
    abort.abort(new Error(why));
    const run = async (): Promise<void> => {
      for (const step of all) {
        running = step.name;
        await attempt(log, step);
      }
      log.info('shut down');
      proc.exit(code);
    };
    void run();
  };

  const signalled = (signal: string): void => {
    if (abort.signal.aborted) {
      log.warn({ signal }, 'second signal, exiting at once');
      return proc.exit(1);
    }
    begin(signal);
  };
  proc.on('SIGTERM', () => signalled('SIGTERM'));
  proc.on('SIGINT', () => signalled('SIGINT'));
  proc.on('unhandledRejection', (err) => {
    log.error({ err }, 'unhandled rejection');
    begin('unhandled rejection', 1);
  });
  return { signal: abort.signal, add: (...more) => void all.push(...more), begin };
}

/** A step that fails must not keep the later ones from running. */
async function attempt(log: Log, step: ShutdownStep): Promise<void> {
  try {
    await step.run();
  } catch (err) {
    log.warn({ err, step: step.name }, 'shutdown step failed');
  }
}
