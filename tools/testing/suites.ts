/** What this machine lacks, as `make doctor` says it; absent where it lacks nothing. */
export interface Machine {
  clusters?: string | undefined;
  realNodes?: string | undefined;
  /** Tools of lazy nodes that are not built: minutes that only a run which asks for them may take. */
  lazyNodes?: string | undefined;
}

/** One jest project with what it needs of the machine. */
export interface Suite {
  name: string;
  /** After this time its processes are ended and it counts as failed. */
  limitMinutes: number;
  /** One file after the other: these suites share a machine's network and two cores, not only its memory. */
  inBand: boolean;
  /** Runs a cluster: the tools are built first, outside the time of the suite. */
  cluster: 'none' | 'control-plane' | 'real-nodes' | 'lazy-nodes';
  /** Runs only when it is asked for by name: another ten minutes would not fit into a run of all. */
  onDemand?: true;
}

/** All suites, in this order; the sum counts each of them, so a suite cannot get lost. */
export const SUITES: readonly Suite[] = [
  { name: 'unit', limitMinutes: 8, inBand: false, cluster: 'none' },
  { name: 'chaos-sim', limitMinutes: 12, inBand: true, cluster: 'none' },
  { name: 'integration', limitMinutes: 55, inBand: true, cluster: 'control-plane' },
  { name: 'nodes', limitMinutes: 30, inBand: true, cluster: 'real-nodes' },
  { name: 'chaos-real', limitMinutes: 20, inBand: true, cluster: 'control-plane', onDemand: true },
  { name: 'formats', limitMinutes: 15, inBand: true, cluster: 'lazy-nodes' },
];

/** Why this machine cannot run a suite, with the way out; nothing if it can. */
export function obstacle(suite: Suite, machine: Machine): string | undefined {
  if (suite.cluster === 'none') return undefined;
  if (suite.cluster === 'control-plane') return machine.clusters;
  return machine.clusters ?? machine.realNodes ?? (suite.cluster === 'lazy-nodes' ? machine.lazyNodes : undefined);
}
