import type { Draft } from '../cluster/client.js';
import type { Cluster } from '../cluster/cluster.js';

export interface PaperNode {
  name: string;
  labels?: Record<string, string>;
  taints?: object[];
  os?: string;
  arch?: string;
  cpu?: string;
  images?: { names: string[]; sizeBytes: number }[];
  conditions?: object[];
}

const stamp = (): string => new Date().toISOString();

/**
 * Makes Nodes that exist in the API only: Pods are bound to them and no kubelet starts any. Called again it says once more that
 * they are ready, since the node controller gives up a node of which it hears nothing for 50 s.
 */
export async function paperNodes(cluster: Cluster, nodes: readonly PaperNode[]): Promise<void> {
  await Promise.all(nodes.map((node) => paperNode(cluster, node)));
}

async function paperNode({ client }: Cluster, node: PaperNode): Promise<void> {
  const { name, labels = {}, taints = [], os = 'linux', arch = 'amd64', cpu = '8', images = [], conditions = [] } = node;
  const known = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': os, 'kubernetes.io/arch': arch };
  const object: Draft = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { ...known, ...labels } }, spec: { taints } };
  if ((await client.find('v1/Node', name)) === undefined) await client.create(object);
  const resources = { cpu, memory: '32Gi', pods: '110', 'ephemeral-storage': '200Gi' };
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'Paper',
    message: '',
    lastHeartbeatTime: stamp(),
    lastTransitionTime: stamp(),
  };
  const status = {
    capacity: resources,
    allocatable: resources,
    conditions: [ready, ...conditions],
    images,
    nodeInfo: { operatingSystem: os, architecture: arch },
  };
  await client.patch('v1/Node', name, { status }, { subresource: 'status' });
}
