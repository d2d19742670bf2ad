import type { NodeFacts } from '../../../src/placement/node-facts.js';

/** A Ready amd64 node with 8 cores and 100 GB, changed as a test needs it. */
export const node = (name: string, change: Partial<NodeFacts> = {}): NodeFacts => ({
  name,
  uid: `uid-${name}`,
  labels: { 'kubernetes.io/hostname': name },
  taints: [],
  ready: true,
  unschedulable: false,
  pressure: [],
  createdAt: 0,
  allocatable: { cpu: 8, 'ephemeral-storage': 100e9 },
  os: 'linux',
  arch: 'amd64',
  ...change,
});
