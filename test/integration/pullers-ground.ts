import type { Draft } from '../cluster/client.js';
import { SYSTEM } from './controller/ground.js';

/** Binds a ClusterRole to the controller in one namespace. */
export const bind = (namespace: string, role: string): Draft => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  metadata: { name: role, namespace },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
  subjects: [{ kind: 'ServiceAccount', name: 'harbinger-controller', namespace: SYSTEM }],
});

export const quota = (namespace: string, pods: number): Draft => ({
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  metadata: { name: 'pods', namespace },
  spec: { hard: { pods: String(pods) } },
});

const limits = (namespace: string, more: Record<string, unknown>): Draft => ({
  apiVersion: 'v1',
  kind: 'LimitRange',
  metadata: { name: 'containers', namespace },
  spec: { limits: [{ type: 'Container', ...more }] },
});

/** Namespaces of tenants, each with what makes it hard for pullers. */
export const TENANTS: Record<string, { labels?: Record<string, string>; role?: string; secret?: boolean; objects?: Draft[] }> = {
  plain: {},
  unbound: { role: 'harbinger-pull-secrets' },
  'no-quota': { objects: [quota('no-quota', 0)] },
  'tight-quota': { objects: [quota('tight-quota', 1)] },
  inflated: {
    objects: [limits('inflated', { defaultRequest: { cpu: '2', memory: '1Gi' }, default: { cpu: '2', memory: '1Gi' } })],
  },
  minimum: { objects: [limits('minimum', { min: { cpu: '100m' } })] },
  strict: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted', 'istio-injection': 'enabled' } },
  late: { secret: false },
  taken: {},
  gated: { labels: { 'kueue-managed': 'here' } },
};

/** Two nodes for each, as one node pulls for one at a time. */
export const nodesOf = (namespace: string): string[] => {
  const first = Object.keys(TENANTS).indexOf(namespace) * 2 + 1;
  return [first, first + 1].map((n) => `fake-${n}`);
};
/** Nodes of no tenant. */
export const SPARE = Object.keys(TENANTS).length * 2 + 1;

/** Name of the secret of each tenant. */
export const SECRET = 'registry';

export type Spec = Record<string, unknown> & { containers: [Record<string, unknown>]; volumes: unknown[] };
/** What the admission policy lets no account of the controller make, as changes of a Pod spec that fits. */
export const FORBIDDEN: [string, (spec: Spec) => void][] = [
  ['a volume of the host', (s) => s.volumes.push({ name: 'host', hostPath: { path: '/' } })],
  ['a secret as a volume', (s) => s.volumes.push({ name: 'theirs', secret: { secretName: SECRET } })],
  [
    'a token as a volume',
    (s) => s.volumes.push({ name: 'token', projected: { sources: [{ serviceAccountToken: { path: 't' } }] } }),
  ],
  ['an image that is not pinned', (s) => (s.volumes = [{ name: 'image', image: { reference: 'reg.example.com/x:v1' } }])],
  ['the network of the host', (s) => (s['hostNetwork'] = true)],
  ['the processes of the host', (s) => (s['hostPID'] = true)],
  ['a token', (s) => (s['automountServiceAccountToken'] = true)],
  ['root', (s) => (s['securityContext'] = {})],
  ['another program', (s) => (s.containers[0]['image'] = 'reg.example.com/miner:v1')],
  ['another command', (s) => (s.containers[0]['command'] = ['/bin/sh'])],
  [
    'a secret as environment',
    (s) => (s.containers[0]['env'] = [{ name: 'X', valueFrom: { secretKeyRef: { name: SECRET, key: '.dockerconfigjson' } } }]),
  ],
  ['privileges', (s) => (s.containers[0]['securityContext'] = { privileged: true })],
  ['a second container', (s) => (s.containers as unknown[]).push({ ...s.containers[0], name: 'more' })],
  ['a priority', (s) => (s['priorityClassName'] = 'system-node-critical')],
  [
    'a probe that calls others from the network of the node',
    (s) => (s.containers[0]['startupProbe'] = { httpGet: { host: '10.0.0.1', port: 80 } }),
  ],
  ['a probe that runs something else', (s) => (s.containers[0]['startupProbe'] = { exec: { command: ['/bin/sh'] } })],
];
