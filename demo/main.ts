import { randomInt, randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { styleOf } from '../src/cli/timeline/text.js';
import { chooseNodes } from '../test/cluster/choose-nodes.js';
import { Cluster } from '../test/cluster/cluster.js';
import { costsOf } from './costs.js';
import { play } from './play.js';
import type { Run } from './play.js';
import { Narrator } from './narrator.js';
import { settingsFor } from './settings.js';
import type { Settings } from './settings.js';
import { writeResults } from './results.js';
import { whatToTry } from './try-next.js';

/** `make demo`: composes the demo out of its parts and answers with an exit code of 0 only if every step was observed. */
async function main(): Promise<number> {
  const style = styleOf(process.stdout, process.env);
  const narrator = new Narrator(style, process.stdout);
  const choice = await chooseNodes(process.env['NODES'] ?? '', (line) => narrator.say(line));
  const settings = settingsFor(choice.nodes, { keep: (process.env['KEEP'] ?? '') !== '', out: resolve('.out/demo') });
  rmSync(settings.out, { recursive: true, force: true });
  mkdirSync(join(settings.out, 'outputs'), { recursive: true });
  narrator.say(`Nodes: ${choice.nodes} (${choice.why})`);
  for (const line of costsOf(settings)) narrator.say(line);

  const interrupted = new AbortController();
  onSignals((signal) => {
    if (interrupted.signal.aborted) return;
    narrator.problem(`${signal}: ending the demo and taking down what it started`);
    interrupted.abort(new Error(`interrupted by ${signal}`));
  });
  // A cluster that is still starting is not waited for: its supervisor sees this process end and takes everything down.
  const aborted = new Promise<never>((_, reject) =>
    interrupted.signal.addEventListener('abort', () => reject(interrupted.signal.reason as Error)),
  );
  aborted.catch(() => undefined);

  const run: Run = {
    settings,
    narrator,
    signal: interrupted.signal,
    id: randomUUID().slice(0, 8),
    shuffle: (n) => randomInt(n),
    legs: [],
    prewarm: null,
  };
  let cluster: Cluster | undefined;
  let failure: unknown;
  try {
    const starting = Cluster.start({
      name: 'demo',
      kueue: true,
      nodes:
        choice.nodes === 'real'
          ? { real: settings.nodeCount }
          : { fake: { count: settings.nodeCount, linkMbit: settings.linkMbit } },
      registry: choice.nodes === 'real' ? { rateMbit: settings.linkMbit } : true,
      say: (line) => narrator.note(line),
    });
    cluster = await Promise.race([starting, aborted]);
    await Promise.race([play(run, cluster), aborted]);
  } catch (error) {
    failure = error;
    narrator.problem(error instanceof Error ? error.message : String(error));
    if (cluster !== undefined) narrator.say(`  Logs of every process: ${cluster.logDir}`);
  }
  const met = writeResults(run, style, (line) => narrator.say(line));
  if (cluster !== undefined) await endCluster(cluster, settings, narrator);
  if (failure !== undefined) return interrupted.signal.aborted ? 130 : 1;
  return met ? 0 : 1;
}

async function endCluster(cluster: Cluster, settings: Settings, narrator: Narrator): Promise<void> {
  if (settings.keep) {
    for (const line of whatToTry(cluster, settings)) narrator.say(line);
    await cluster.keep();
    return;
  }
  narrator.doing('taking everything down');
  await cluster.stop();
  narrator.note('nothing is left running');
}

/** A terminal sends Ctrl-C to the whole process group, and so does the tool that started us: every signal is taken, the first one counts. */
function onSignals(handle: (signal: string) => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => handle(signal));
}

// Not left to the event loop: a socket that lingers somewhere must not keep a person waiting for the prompt.
process.exit(await main());
