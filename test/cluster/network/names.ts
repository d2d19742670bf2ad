import { createHash } from 'node:crypto';

/** Holds the state of all members of clusters: short, since a unix socket's path has at most 107 bytes. */
export const RUN_ROOT = '/run/harbinger';

/**
 * Name of a member's network namespace, cgroup and run folder. The underscore ends the cluster's name, which has none: the members of
 * cluster `a` are never taken for those of cluster `a-b`.
 */
export function memberName(cluster: string, member: string): string {
  return `${clusterPrefix(cluster)}${member}`;
}

/** What the names of a cluster's members begin with. */
export function clusterPrefix(cluster: string): string {
  if (!/^[a-z0-9-]+$/.test(cluster)) throw new Error(`cluster name "${cluster}": use a-z, 0-9 and - only`);
  return `hb-${cluster}_`;
}

/** An interface name has at most 15 bytes, so it is made of a digest. */
export function interfaceName(kind: 'bridge' | 'veth', name: string): string {
  return `hb${kind[0]}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}

/** `a.b.c.N` of `a.b.c.0/24`. */
export function addressIn(subnet: string, last: number): string {
  const match = /^(\d+\.\d+\.\d+)\.0\/24$/.exec(subnet);
  if (!match) throw new Error(`subnet "${subnet}": a.b.c.0/24 is expected`);
  return `${match[1]}.${last}`;
}

/** Number of addresses of a /27: host, registries and nodes share the first, the Pods of the n-th node have the n-th. */
export const BLOCK = 32;
