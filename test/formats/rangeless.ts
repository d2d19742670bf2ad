import { createServer, type Server } from 'node:http';
import { request } from 'undici';

export interface Rangeless {
  readonly host: string;
  /** Requests for a part of a blob that were answered with the whole of it. */
  refused(): number;
  close(): Promise<void>;
}

/**
 * A registry in front of `upstream` that serves whole blobs only: it ignores Range, as HTTP allows and as some registries and caches do.
 * Listens on an address of the host that nodes reach.
 */
export async function startRangeless(address: string, port: number, upstream: string): Promise<Rangeless> {
  let refused = 0;
  const server: Server = createServer((incoming, answer) => {
    const { range, host: _, connection: __, ...headers } = incoming.headers;
    if (range !== undefined) refused++;
    // A name of the front in `host` would send uploads and redirects past it, but nodes only read.
    const forwarded = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)) as Record<
      string,
      string
    >;
    request(`http://${upstream}${incoming.url ?? '/'}`, {
      method: incoming.method === 'HEAD' ? 'HEAD' : 'GET',
      headers: forwarded,
    })
      .then((response) => {
        const { 'accept-ranges': ___, ...kept } = response.headers;
        answer.writeHead(response.statusCode, kept);
        response.body.on('error', () => answer.destroy()).pipe(answer);
      })
      .catch(() => answer.writeHead(502).end());
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, address, resolve));
  return {
    host: `${address}:${port}`,
    refused: () => refused,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
