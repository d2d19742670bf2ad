import { readFile, writeFile } from 'node:fs/promises';
import { run } from '../exec.js';
import { cleanUpCluster, cleanUpMembers } from './cleanup.js';
import { ip } from './ip.js';
import { addressIn, BLOCK, interfaceName, memberName } from './names.js';

export { cleanUpCluster } from './cleanup.js';

/** The bridge of one cluster on this machine and what hangs on it. */
export interface Network {
  /** Cluster name: [a-z0-9-]. Namespaces are `hb-<cluster>_<member>`. */
  readonly cluster: string;
  /** Leased `a.b.c.0/24`: the first /27 holds host, registries and nodes, each further /27 the Pods of one node. */
  readonly subnet: string;
  /** The host's address on the bridge: where the API server and webhooks are reached from nodes. */
  readonly hostAddress: string;
  /** Adds a namespace with a veth on the bridge. `slot` 2..30 is the last octet of its address. */
  join(member: string, slot: number): Promise<Member>;
  /** Gives the n-th (1..7) block of Pod addresses to a member, which forwards for its Pods. Returns the block. */
  routePods(member: Member, n: number): Promise<string>;
  /** Removes bridge, namespaces, routes, and ends what runs in them. */
  close(): Promise<void>;
}

export interface Member {
  /** Name of namespace, cgroup and run folder. */
  readonly netns: string;
  readonly address: string;
  /** Host side of the veth. */
  readonly hostInterface: string;
  /** Bytes the member has sent since it was made. */
  bytesSent(): Promise<number>;
  bytesReceived(): Promise<number>;
  /** Limits what the member sends; undefined lifts the limit. */
  shapeEgress(rateMbit: number | undefined): Promise<void>;
  /** Command line that runs a program in this namespace. */
  enter(command: string, args: readonly string[]): { command: string; args: string[] };
  /** Ends what runs in it and removes it. */
  remove(): Promise<void>;
}

/**
 * Makes the bridge of a cluster; needs root. What a killed run of the same name has left is removed first, so a name must not be
 * in use: add the number of the leased subnet to it.
 */
export async function createNetwork({ cluster, subnet }: { cluster: string; subnet: string }): Promise<Network> {
  await cleanUpCluster(cluster);
  const bridge = interfaceName('bridge', cluster);
  const hostAddress = addressIn(subnet, 1);
  await ip([`link add ${bridge} type bridge`, `addr add ${hostAddress}/27 dev ${bridge}`, `link set ${bridge} up`]);
  // Forwarding is decided by the interface a packet comes in at: the machine's own setting stays as it is.
  await writeFile(`/proc/sys/net/ipv4/conf/${bridge}/forwarding`, '1');
  return {
    cluster,
    subnet,
    hostAddress,
    join: (member, slot) => join({ cluster, subnet, bridge, hostAddress }, member, slot),
    routePods: async (member, n) => {
      const block = `${addressIn(subnet, n * BLOCK)}/27`;
      await ip([`route replace ${block} via ${member.address} dev ${bridge}`]);
      const { command, args } = member.enter('sysctl', ['-qw', 'net.ipv4.ip_forward=1']);
      await run(command, args);
      return block;
    },
    close: async () => {
      const left = await cleanUpCluster(cluster);
      if (left.length > 0) throw new Error(`network of cluster ${cluster}: could not remove ${left.join(', ')}`);
    },
  };
}

async function join(
  bridge: { cluster: string; subnet: string; bridge: string; hostAddress: string },
  name: string,
  slot: number,
): Promise<Member> {
  if (slot < 2 || slot >= BLOCK - 1) throw new Error(`slot ${slot} of ${name}: 2 to ${BLOCK - 2} are for members`);
  const netns = memberName(bridge.cluster, name);
  const address = addressIn(bridge.subnet, slot);
  const outside = interfaceName('veth', netns);
  await ip([
    `netns add ${netns}`,
    `link add ${outside} type veth peer name eth0 netns ${netns}`,
    `link set ${outside} master ${bridge.bridge} up`,
  ]);
  await ip(
    ['link set lo up', `addr add ${address}/27 dev eth0`, 'link set eth0 up', `route add default via ${bridge.hostAddress}`],
    netns,
  );
  const counter = async (name: string): Promise<number> =>
    Number(await readFile(`/sys/class/net/${outside}/statistics/${name}`, 'utf8'));
  return {
    netns,
    address,
    hostInterface: outside,
    // The host receives what the member sends.
    bytesSent: () => counter('rx_bytes'),
    bytesReceived: () => counter('tx_bytes'),
    shapeEgress: (rateMbit) => shape(netns, rateMbit),
    // Not `ip netns exec`: that mounts a fresh /sys, which hides the cgroups.
    enter: (command, args) => ({ command: 'nsenter', args: [`--net=/run/netns/${netns}`, command, ...args] }),
    remove: async () => {
      const left = await cleanUpMembers([netns]);
      if (left.length > 0) throw new Error(`${netns}: could not remove ${left.join(', ')}`);
    },
  };
}

async function shape(netns: string, rateMbit: number | undefined): Promise<void> {
  const qdisc = ['-n', netns, 'qdisc'];
  if (rateMbit === undefined) {
    await run('tc', [...qdisc, 'del', 'dev', 'eth0', 'root']).catch(() => undefined);
    return;
  }
  // The burst holds at least one 64 KiB segment, else the kernel splits each and the rate falls short.
  await run('tc', [
    ...qdisc,
    'replace',
    'dev',
    'eth0',
    'root',
    'tbf',
    'rate',
    `${rateMbit}mbit`,
    'burst',
    '256kb',
    'latency',
    '100ms',
  ]);
}
