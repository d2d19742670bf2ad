import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';

/** A registry with one kind of trouble. */
export interface Trouble {
  what: string;
  host: string;
  /** Connections that it has had. */
  calls: () => number;
  close: () => void;
}

async function listen(what: string, server: Server): Promise<Trouble> {
  let calls = 0;
  server.on('connection', (socket) => {
    calls++;
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { what, host: `127.0.0.1:${port}`, calls: () => calls, close: () => server.close() };
}

const answering = (status: number, headers: Record<string, string> = {}): Server =>
  createHttpServer((_, response) => response.writeHead(status, headers).end());

/** Registries that hang, deny, fail, reset, and one whose name is nobody's. */
export const startTroubles = async (): Promise<Trouble[]> => [
  await listen('hangs', createServer()),
  await listen('says 401', answering(401, { 'www-authenticate': 'Basic realm="registry"' })),
  await listen('says 500', answering(500)),
  await listen(
    'resets connections',
    createServer((socket) => socket.once('data', () => socket.resetAndDestroy())),
  ),
  { what: 'has a name that does not resolve', host: 'registry.invalid:5000', calls: () => 0, close: () => undefined },
];
