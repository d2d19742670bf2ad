// Clusters for use by hand: `cli up` (make cluster), `cli down` (make cluster-down), `cli doctor` (make doctor).
// Variables: NODES=real|fake, COUNT=nodes (3), NAME=hand.
import { existsSync, rmSync } from 'node:fs';
import { relative } from 'node:path';
import { chooseNodes } from './choose-nodes.js';
import { Cluster } from './cluster.js';
import { examine, report } from './doctor.js';
import { statePath } from './paths.js';
import { isAlive } from './process-identity.js';
import { Supervisor } from './supervisor/client.js';
import { readState, tearDown } from './supervisor/teardown.js';

const name = process.env['NAME'] ?? 'hand';

async function up(): Promise<void> {
  const count = Number(process.env['COUNT'] ?? 3);
  const choice = await chooseNodes(process.env['NODES'] ?? '', (line) => console.log(line));
  const real = choice.nodes === 'real';
  console.log(`${choice.nodes} nodes: ${choice.why}`);
  const begun = performance.now();
  const cluster = await Cluster.start({ name, nodes: real ? { real: count } : { fake: count }, kueue: true });
  await cluster.kueueQueue();
  await cluster.keep();
  console.log(`
Cluster "${name}": API server ${cluster.apiServer}, Kueue with LocalQueue default/gang, ${count} ${real ? 'real' : 'fake'} nodes,
registry ${cluster.registry.host}; started in ${Math.round((performance.now() - begun) / 1000)} s. Logs: ${relative('.', cluster.logDir)}

Try next:
  export KUBECONFIG=${cluster.kubeconfig}
  export PATH=${cluster.runDir}/bin:$PATH
  kubectl get nodes,clusterqueues
  kubectl apply -k manifests && kubectl get crd | grep harbinger
  make cluster-down${name === 'hand' ? '' : ` NAME=${name}`}`);
}

async function down(): Promise<void> {
  const path = statePath(name);
  const state = readState(path);
  if (!state) return console.log(`no cluster "${name}" is running${existsSync(path) ? ` (${path} is unreadable)` : ''}`);
  const leftovers = isAlive(state.supervisor) ? await (await Supervisor.attach(state)).shutdown() : await tearDown(state);
  rmSync(path, { force: true });
  if (leftovers.length > 0) throw new Error(`could not remove: ${leftovers.join(', ')}`);
  console.log(`cluster "${name}" is gone`);
}

const commands: Record<string, () => Promise<void> | void> = { up, down, doctor: () => console.log(report(examine())) };
const command = commands[process.argv[2] ?? ''];
if (!command) throw new Error(`usage: cli ${Object.keys(commands).join('|')}`);
try {
  await command();
} catch (error) {
  console.error(`error: ${(error as Error).message}`);
  process.exitCode = 1;
}
