// Clusters for use by hand: `cli up` (make cluster), `cli down` (make cluster-down), `cli doctor` (make doctor).
// Variables: NODES=real|fake, COUNT=nodes (3), NAME=hand.
import { existsSync, rmSync } from 'node:fs';
import { relative } from 'node:path';
import { Cluster } from './cluster.js';
import { canRunRealNodes, examine, report } from './doctor.js';
import { ensurePackages } from './packages/index.js';
import { statePath } from './paths.js';
import { isAlive } from './process-identity.js';
import { Supervisor } from './supervisor/client.js';
import { readState, tearDown } from './supervisor/teardown.js';

const name = process.env['NAME'] ?? 'hand';

async function up(): Promise<void> {
  const count = Number(process.env['COUNT'] ?? 3);
  const real = await wantsRealNodes();
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

/** NODES decides; without it, real nodes where they can run. Says in one line why it takes fake ones. */
async function wantsRealNodes(): Promise<boolean> {
  const wanted = process.env['NODES'];
  if (wanted === 'fake') return false;
  const able = canRunRealNodes();
  const packages = able.ok ? await ensurePackages((line) => console.log(line)) : undefined;
  if (able.ok && packages?.ok) return true;
  const why = packages && !packages.ok ? packages.why : able.why;
  if (wanted === 'real') throw new Error(`no real nodes on this machine: ${why}`);
  console.log(`fake nodes, since real ones cannot run here: ${why}`);
  return false;
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
