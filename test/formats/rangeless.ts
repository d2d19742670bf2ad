import { createServer, type Server } from 'node:http';
import { request } from 'undici';

/** `ignore` answers with the whole blob, as HTTP allows; `refuse` with 403, as registries do whose tokens or caches know no ranges. */
export type RangeAnswer = 'ignore' | 'refuse';

export interface Rangeless {
  readonly host: string;
  /** Requests for a part of a blob so far. */
  asked(): number;
  close(): Promise<void>;
}

/** A registry in front of `upstream` that serves whole blobs only. Listens on an address of the host that nodes reach. */
export async function startRangeless(
  address: string,
  port: number,
  { upstream, answer }: { upstream: string; answer: RangeAnswer },
): Promise<Rangeless> {
  let asked = 0;
  const server: Server = createServer((incoming, outgoing) => {
    const { range, accept, authorization } = incoming.headers;
    if (range !== undefined) asked++;
    if (range !== undefined && answer === 'refuse') return void outgoing.writeHead(403).end();
    const headers = { ...(accept && { accept }), ...(authorization && { authorization }) };
    request(`http://${upstream}${incoming.url ?? '/'}`, { method: incoming.method === 'HEAD' ? 'HEAD' : 'GET', headers })
      .then((response) => {
        const { 'accept-ranges': _, ...kept } = response.headers;
        outgoing.writeHead(response.statusCode, kept);
        response.body.on('error', () => outgoing.destroy()).pipe(outgoing);
      })
      .catch(() => outgoing.writeHead(502).end());
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, address, resolve));
  return {
    host: `${address}:${port}`,
    asked: () => asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
