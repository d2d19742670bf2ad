import type { IncomingMessage } from 'node:http';
import { HEAD_BYTES } from './admission-review.js';
import type { ShedReason } from './overload.js';

export type Body = { kind: 'whole'; bytes: Buffer } | { kind: 'head'; bytes: Buffer; why: ShedReason } | { kind: 'gone' };

/**
 * Collects a request body. `take` is asked before each chunk is kept; from its first refusal on only the head is kept and the rest
 * is read and dropped, so that the connection stays usable. `gone`: the caller hung up.
 */
export function readBody(request: IncomingMessage, take: (bytes: number) => ShedReason | undefined): Promise<Body> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let refused: ShedReason | undefined;
    const finish = (): void => {
      request.off('data', keep).resume();
      const [first] = chunks;
      // Most reviews come in one piece, which needs no copy.
      if (refused === undefined) resolve({ kind: 'whole', bytes: first && chunks.length === 1 ? first : Buffer.concat(chunks) });
      else resolve({ kind: 'head', bytes: Buffer.concat(chunks).subarray(0, HEAD_BYTES), why: refused });
    };
    const keep = (chunk: Buffer): void => {
      refused ??= take(chunk.length);
      const kept = refused === undefined ? chunk : chunk.subarray(0, HEAD_BYTES);
      chunks.push(kept);
      size += kept.length;
      if (refused !== undefined && size >= HEAD_BYTES) finish();
    };
    request.on('data', keep);
    request.on('end', finish);
    request.on('close', () => resolve({ kind: 'gone' }));
    request.on('error', () => resolve({ kind: 'gone' }));
  });
}
