import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';

// Ends with the process that measures, however that ends.
process.on('disconnect', () => process.exit());

// The least that a webhook can do: what Harbinger takes beyond it is the price of deciding. Prints its port.
const { cert, key } = JSON.parse(readFileSync(0, 'utf8')) as { cert: string; key: string };
const server = createServer({ cert, key, ALPNProtocols: ['http/1.1'], keepAliveTimeout: 95_000 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { apiVersion, kind, request: asked } = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, { uid: string }>;
    const body = JSON.stringify({ apiVersion, kind, response: { uid: asked?.uid, allowed: true } });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
  });
});
server.listen(0, '127.0.0.1', () => console.log(String((server.address() as AddressInfo).port)));
