// The supervisor of one test cluster: `supervisor NAME RUN_DIR DIR owned|free`. It holds all processes of the cluster and
// answers on a unix socket. With "owned", its stdin is a pipe from its owner: when the owner dies, however it dies, the
// kernel closes the pipe and the cluster is torn down. Detached, so that Ctrl-C in the owner's terminal does not end it first.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { identityOf } from '../process-identity.js';
import { Children } from './children.js';
import type { Answer, ClusterState, Request } from './protocol.js';
import { tearDown } from './teardown.js';

const [name = '', runDir = '', dir = '', ownership = ''] = process.argv.slice(2);
const stateFile = join(dir, 'state.json');
const state: ClusterState = {
  name,
  supervisor: identityOf(process.pid),
  socket: join(runDir, 'supervisor.sock'),
  runDir,
  logDir: join(dir, 'logs'),
  children: [],
  info: {},
};
mkdirSync(state.logDir, { recursive: true });
const children = new Children(state.logDir, save);

function save(): void {
  state.children = children.identities();
  const temp = `${stateFile}.${process.pid}`;
  writeFileSync(temp, JSON.stringify(state, undefined, 2));
  renameSync(temp, stateFile);
}

let owned = ownership === 'owned';
let ending: Promise<string[]> | undefined;
function end(why: string): Promise<string[]> {
  ending ??= (async () => {
    console.log(`tearing down: ${why}`);
    const leftovers = await tearDown(state);
    if (leftovers.length > 0) console.log(`left behind: ${leftovers.join(', ')}`);
    rmSync(stateFile, { force: true });
    return leftovers;
  })();
  return ending;
}

async function answer(request: Request): Promise<unknown> {
  if (ending) throw new Error('the cluster is being torn down');
  switch (request.op) {
    case 'spawn':
      return children.spawn(request.spec);
    case 'start':
      return children.start(request.name);
    case 'signal':
      return children.signal(request.name, request.signal);
    case 'wait':
      return children.exited(request.name);
    case 'list':
      return children.list();
    case 'describe':
      Object.assign(state.info, request.info);
      return save();
    case 'disown':
      owned = false;
      return;
    case 'shutdown':
      return end('asked to');
  }
}

async function serve(line: string, socket: Socket): Promise<void> {
  const request = JSON.parse(line) as Request;
  let reply: Answer;
  try {
    reply = { id: request.id, ok: true, value: (await answer(request)) ?? null };
  } catch (error) {
    reply = { id: request.id, ok: false, error: (error as Error).message };
  }
  socket.write(`${JSON.stringify(reply)}\n`, () => {
    if (request.op === 'shutdown') process.exit(0);
  });
}

const server = createServer((socket) => {
  socket.on('error', () => socket.destroy());
  createInterface({ input: socket }).on('line', (line) => void serve(line, socket));
});
server.listen(state.socket, save);

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
  process.on(signal, () => void end(signal).then(() => process.exit(0)));
if (owned) {
  process.stdin.resume();
  process.stdin.on('close', () => {
    if (owned) void end('the owner has gone').then(() => process.exit(0));
  });
}
process.on('uncaughtException', (error) => {
  console.log(error);
  void end('a defect in the supervisor').then(() => process.exit(1));
});
