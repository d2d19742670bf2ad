// A layer 4 balancer on loopback, as a Service is in front of webhook replicas: `balancer LISTEN_PORT BACKEND_PORT...`.
// Each connection goes to the next backend in turn; one that refuses is passed over, so a killed replica costs a retry and no request.
import { connect, createServer, type Socket } from 'node:net';

const [listenPort = 0, ...backends] = process.argv.slice(2).map(Number);
let turn = 0;

function dial(client: Socket, attempt: number): void {
  const port = backends[turn++ % backends.length] ?? 0;
  const backend = connect(port, '127.0.0.1');
  let connected = false;
  backend.once('connect', () => {
    connected = true;
    client.pipe(backend).pipe(client);
  });
  backend.on('error', () => {
    if (connected || attempt + 1 >= backends.length) client.destroy();
    else dial(client, attempt + 1);
  });
  backend.on('close', () => {
    if (connected) client.destroy();
  });
  client.on('close', () => backend.destroy());
}

const server = createServer((client) => {
  client.on('error', () => client.destroy());
  dial(client, 0);
});
server.listen(listenPort, '127.0.0.1', () => console.log(`balancing 127.0.0.1:${listenPort} over ${backends.join(', ')}`));
