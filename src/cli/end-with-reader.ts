import type { EventEmitter } from 'node:events';
import { constants } from 'node:os';

/** Exit code by which shells tell that a program was ended because nobody read its output any more. */
const BROKEN_PIPE = 128 + constants.signals.SIGPIPE;

/** Ends the process quietly when the reader of its output goes away, as `head` does. Node ignores the signal that ends other programs. */
export function endWithReader(output: EventEmitter, exit: (code: number) => void): void {
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    exit(BROKEN_PIPE);
  });
}
