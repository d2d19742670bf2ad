import { setMaxListeners } from 'node:events';
import { KubeError } from './errors.js';

/** Calls `fn` when `signal` aborts, until the returned function is called. */
export function onAbort(signal: AbortSignal | undefined, fn: () => void): () => void {
  if (signal === undefined) return () => undefined;
  // One shutdown signal has a listener for every call in flight; Node's leak warning at eleven would be false.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', fn, { once: true });
  return () => signal.removeEventListener('abort', fn);
}

/**
 * Runs `work` with a signal that aborts at the deadline or with `outer`. AbortSignal.any is not used: in Node 20 each use on a
 * long-lived signal leaves a listener behind.
 *
 * @param what names the call in errors
 * @throws KubeError `Timeout` or `Unreachable`; `outer.reason` when the caller gave up
 */
export async function withDeadline<T>(
  what: string,
  timeoutMs: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const unfollow = onAbort(outer, () => controller.abort());
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, timeoutMs);
  try {
    outer?.throwIfAborted();
    return await orAborted(work(controller.signal), controller.signal);
  } catch (error) {
    outer?.throwIfAborted();
    if (late)
      throw new KubeError(`${what}: the API server did not answer within ${timeoutMs} ms`, { status: 0, reason: 'Timeout' });
    throw networkError(what, error);
  } finally {
    clearTimeout(timer);
    unfollow();
  }
}

/** undici only looks at a signal once it is connected; a peer that accepts and stays silent would outlast every deadline. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const unfollow = onAbort(signal, () => reject(signal.reason as Error));
    work.then(resolve, reject).finally(unfollow);
  });
}

/** What undici or a socket threw, as a KubeError; errors that are already understood pass. */
export function networkError(what: string, error: unknown): unknown {
  if (error instanceof KubeError || error instanceof TypeError) return error;
  const { code, message } = error as { code?: string; message?: string };
  const text = message === undefined || message === '' ? 'connection failed' : message;
  return new KubeError(`${what}: cannot reach the API server: ${code === undefined ? '' : `${code} `}${text}`, {
    status: 0,
    reason: 'Unreachable',
    cause: error,
  });
}
