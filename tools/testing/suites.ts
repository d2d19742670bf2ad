/** What this machine lacks, as `make doctor` says it; absent where it lacks nothing. */
export interface Machine {
  clusters?: string | undefined;
  realNodes?: string | undefined;
}

/** One jest project with what it needs of the machine. */
export interface Suite {
  name: string;
  /** After this time its processes are ended and it counts as failed. */
  limitMinutes: number;
  /** One file after the other: these suites share a machine's network and two cores, not only its memory. */
  inBand: boolean;
  /** Runs a cluster: the tools are built first, outside the time of the suite. */
  cluster: 'none' | 'control-plane' | 'real-nodes';
}

/** All suites, in this order; the sum counts each of them, so a suite cannot get lost. */
export const SUITES: readonly Suite[] = [
  { name: 'unit', limitMinutes: 5, inBand: false, cluster: 'none' },
  { name: 'integration', limitMinutes: 40, inBand: true, cluster: 'control-plane' },
  { name: 'nodes', limitMinutes: 30, inBand: true, cluster: 'real-nodes' },
];

/** Why this machine cannot run a suite, with the way out; nothing if it can. */
export function obstacle(suite: Suite, machine: Machine): string | undefined {
  if (suite.cluster === 'none') return undefined;
  return machine.clusters ?? (suite.cluster === 'real-nodes' ? machine.realNodes : undefined);
}
