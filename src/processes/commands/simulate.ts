import { Explainer } from '../../cli/explain.js';
import { readManifests } from '../../cli/manifests.js';
import type { Entry } from '../../cli/manifests.js';
import { OfflineGround } from '../../cli/offline.js';
import { Simulation } from '../../cli/simulate.js';
import { PRINTERS } from '../../cli/simulate-print.js';
import { UsageError } from '../usage.js';
import { openGround } from './ground.js';
import type { GroundFlags } from './ground.js';

export type FailOn = 'changed' | 'left' | 'problems';

export interface SimulateFlags extends GroundFlags {
  filename?: string[];
  namespace?: string;
  output: 'text' | 'json' | 'yaml';
  failOn?: FailOn[];
}

/** Exit code where --fail-on matches: neither an error nor wrong usage. */
const MATCHED = 3;

/** Prints what would become of the images of all manifests, and sets the exit code that --fail-on asks for. */
export async function runSimulate(flags: SimulateFlags): Promise<void> {
  const { filename, failOn = [] } = flags;
  if (filename === undefined) throw new UsageError('nothing to simulate; write harbinger simulate -f FOLDER');
  const { ground, port, close } = await openGround(flags);
  try {
    const simulation = new Simulation({
      explainer: new Explainer({ ground, port }),
      namespace: flags.namespace,
      learn: (name, facts) => {
        // What a cluster says of a namespace goes before what a file says.
        if (ground instanceof OfflineGround) ground.learn(name, facts);
      },
    });
    const printer = PRINTERS[flags.output]();
    for await (const item of simulation.run(manifestsOf(filename))) await write(printer.item(item));
    await write(printer.end(simulation.summary, ground.notes.all));
    if (failOn.some((what) => simulation.summary[what] > 0)) process.exitCode = MATCHED;
  } finally {
    await close();
  }
}

async function* manifestsOf(paths: readonly string[]): AsyncGenerator<Entry> {
  for (const path of paths) yield* readManifests(path, process.stdin);
}

/** Waits for slow readers, so that what is printed does not pile up in memory. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await new Promise((resolve) => process.stdout.once('drain', resolve));
}
