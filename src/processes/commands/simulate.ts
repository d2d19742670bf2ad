import { Explainer } from '../../cli/explain.js';
import { ManifestSource } from '../../cli/manifest-source.js';
import { OfflineGround } from '../../cli/offline.js';
import { Simulation } from '../../cli/simulate.js';
import { PRINTERS } from '../../cli/simulate-print.js';
import { UsageError } from '../usage.js';
import { openGround } from './ground.js';
import type { GroundFlags } from './ground.js';

export type FailOn = 'changed' | 'left' | 'problems';

export interface SimulateFlags extends GroundFlags {
  filename?: string[];
  output: 'text' | 'json' | 'yaml';
  failOn?: FailOn[];
}

/** Exit code where --fail-on matches: neither an error nor wrong usage. */
const MATCHED = 3;

/** Prints what would become of the images of all manifests, and sets the exit code that --fail-on asks for. */
export async function runSimulate(flags: SimulateFlags): Promise<void> {
  const { filename, failOn = [] } = flags;
  if (filename === undefined) throw new UsageError('nothing to simulate; write harbinger simulate -f FOLDER');
  const { ground, port, namespace, close } = await openGround(flags);
  const source = new ManifestSource(filename, process.stdin);
  try {
    // What a cluster says of a namespace goes before what a file says.
    if (ground instanceof OfflineGround) for await (const [name, facts] of source.namespaces()) ground.learn(name, facts);
    const simulation = new Simulation({ explainer: new Explainer({ ground, port }), namespace });
    const printer = PRINTERS[flags.output]();
    for await (const item of simulation.run(source.entries())) await write(printer.item(item));
    await write(printer.end(simulation.summary, ground.notes.all));
    if (failOn.some((what) => simulation.summary[what] > 0)) process.exitCode = MATCHED;
  } finally {
    await close();
  }
}

/** Waits for slow readers, so that what is printed does not pile up in memory. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await new Promise((resolve) => process.stdout.once('drain', resolve));
}
