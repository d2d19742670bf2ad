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
