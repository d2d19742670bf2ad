/** One jest project with what it needs of the machine. */
export interface Suite {
  name: string;
  /** After this time its processes are ended and it counts as failed. */
  limitMinutes: number;
  /** One file after the other: the suites below share a machine's network, not only its memory. */
  inBand: boolean;
  /** Why this machine cannot run it, with the way out; nothing if it can. */
  obstacle(machine: Machine): string | undefined;
}

export interface Machine {
  platform: NodeJS.Platform;
  uid: number | undefined;
  hasGo: boolean;
}

const needsGo = (machine: Machine): string | undefined =>
  machine.hasGo
    ? undefined
    : 'Go is not installed, and it builds the API server and the other parts of a cluster; install Go (see README.md) and run again';

/** All suites, in this order; the sum counts each of them, so a suite cannot get lost. */
export const SUITES: readonly Suite[] = [
  { name: 'unit', limitMinutes: 5, inBand: false, obstacle: () => undefined },
  { name: 'integration', limitMinutes: 40, inBand: true, obstacle: needsGo },
  {
    name: 'nodes',
    limitMinutes: 30,
    inBand: true,
    obstacle(machine) {
      if (machine.platform !== 'linux') return 'real nodes are Linux network namespaces; run it on Linux as root';
      if (machine.uid !== 0) return 'real nodes need root (containerd, network namespaces); run `sudo make test`';
      return needsGo(machine);
    },
  },
];
