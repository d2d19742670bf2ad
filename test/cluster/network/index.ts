/** The bridge of one cluster on this machine and what hangs on it. */
export interface Network {
  /** Cluster name: [a-z0-9-]. Namespaces are `hb-<cluster>-<member>`. */
  readonly cluster: string;
  /** Leased `a.b.c.0/24`: the first /27 holds host, registries and nodes, each further /27 the Pods of one node. */
  readonly subnet: string;
  /** The host's address on the bridge: where the API server and webhooks are reached from nodes. */
  readonly hostAddress: string;
  /** Adds a namespace with a veth on the bridge. `slot` 2..30 is the last octet of its address. */
  join(member: string, slot: number): Promise<Member>;
  /** Removes bridge, namespaces, routes. */
  close(): Promise<void>;
}

export interface Member {
  readonly netns: string;
  readonly address: string;
  /** Host side of the veth. */
  readonly hostInterface: string;
  /** Bytes the member has sent since it was made. */
  bytesSent(): Promise<number>;
  bytesReceived(): Promise<number>;
  /** Limits what the member sends; undefined lifts the limit. */
  shapeEgress(rateMbit: number | undefined): Promise<void>;
  /** Command line that runs a program in this namespace without hiding the cgroups. */
  enter(command: string, args: readonly string[]): { command: string; args: string[] };
}

/** Makes the bridge of a cluster; needs root. A leftover of a killed run of the same name is removed first. */
export function createNetwork(_options: { cluster: string; subnet: string }): Promise<Network> {
  return Promise.reject(new Error('not built yet'));
}

/** Ends what runs in the namespaces and cgroups of a cluster and removes its mounts, namespaces, bridge and routes. Idempotent; works from the name alone. */
export function cleanUpCluster(_cluster: string): Promise<string[]> {
  return Promise.resolve([]);
}
