import { StringDecoder } from 'node:string_decoder';
import { KubeError } from './errors.js';

/** Reads a whole body; beyond `maxBytes` the connection is given up, which is the only way to stop the sender. */
export async function readBody(what: string, body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  // Decoding piece by piece keeps a page of a list out of memory as bytes, which the garbage collector does not feel the weight of.
  const decoder = new StringDecoder('utf8');
  let text = '';
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes)
      throw new KubeError(`${what}: the answer is larger than ${maxBytes} bytes`, { status: 0, reason: 'TooLarge' });
    text += decoder.write(chunk);
  }
  return text + decoder.end();
}

export function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new KubeError(`${what}: the answer is not JSON; is something else listening at the API server's address?`, {
      status: 0,
      reason: 'Garbage',
    });
  }
}

/**
 * Splits a body into its lines. Chunks of an unfinished line are kept in a list, since joining a 1 MB object chunk by chunk
 * would copy it many times over.
 */
export async function* readLines(what: string, body: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      parts.push(chunk.subarray(start, end));
      const line = Buffer.concat(parts).toString('utf8');
      parts = [];
      size = 0;
      start = end + 1;
      if (line !== '') yield line;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
    size += chunk.length - start;
    if (size > maxBytes)
      throw new KubeError(`${what}: one event is larger than ${maxBytes} bytes`, { status: 0, reason: 'TooLarge' });
  }
  // A line without its end was cut off with the connection: the caller watches again from the last whole one.
}
