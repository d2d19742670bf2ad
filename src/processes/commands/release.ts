import type { GangName } from '../../cli/release/gang.js';
import { parseGangName } from '../../cli/release/gang.js';
import type { Released } from '../../cli/release/release.js';
import { releaseGangs, renderReleased } from '../../cli/release/release.js';
import { printed } from '../../cli/output.js';
import { KubeClient } from '../../kube/client.js';
import { systemClock } from '../../observe/clock.js';
import { VERSION } from '../../version.js';
import { UsageError } from '../usage.js';

export interface ReleaseFlags {
  namespace?: string;
  all?: boolean;
  allNamespaces?: boolean;
  dryRun?: boolean;
  wait?: boolean;
  /** Milliseconds. */
  timeout: number;
  output: 'text' | 'json' | 'yaml';
  kubeconfig?: string;
  context?: string;
}

/** Exit code where gangs are held still when the time of --wait is up. */
const STILL_HELD = 3;

/** Lets gangs go, prints what became of each, and sets the exit code. */
export async function runRelease(names: readonly string[], flags: ReleaseFlags): Promise<void> {
  const parsed = gangsOf(names, flags);
  const { all = false, allNamespaces = false, dryRun = false } = flags;
  const client = await KubeClient.fromKubeconfig(flags.kubeconfig, {
    userAgent: `harbinger-cli/${VERSION}`,
    ...(flags.context === undefined ? {} : { context: flags.context }),
  });
  try {
    const namespace = allNamespaces ? undefined : (flags.namespace ?? client.namespace ?? 'default');
    const waitMs = flags.wait === true && !dryRun ? flags.timeout : 0;
    const note = (text: string): void => void process.stderr.write(`! ${text}\n`);
    const results = await releaseGangs({ namespace, names: parsed, all, dryRun, waitMs }, { client, clock: systemClock, note });
    process.stdout.write(flags.output === 'text' ? renderReleased(results) : printed({ gangs: results }, flags.output));
    process.exitCode = exitCodeOf(results);
  } finally {
    await client.close();
  }
}

/** What is asked for. Throws UsageError where the words contradict each other. */
function gangsOf(names: readonly string[], { all = false, allNamespaces = false, namespace }: ReleaseFlags): GangName[] {
  if (all === names.length > 0)
    throw new UsageError(all ? 'name gangs or say --all, not both' : 'which gang? write [KIND/]NAME, or --all');
  if (allNamespaces && !all) throw new UsageError('--all-namespaces goes with --all; a name belongs to one namespace');
  if (allNamespaces && namespace !== undefined) throw new UsageError('--namespace or --all-namespaces, not both');
  return names.map((text) => {
    const name = parseGangName(text);
    if (name === undefined) throw new UsageError(`"${text}" names no gang; write NAME or KIND/NAME, for example job/train`);
    return name;
  });
}

function exitCodeOf(results: readonly Released[]): number {
  if (results.some((r) => r.result === 'failed')) return 1;
  return results.some((r) => r.result === 'still-held') ? STILL_HELD : 0;
}
