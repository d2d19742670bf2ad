import { GROUP, INSTALL } from '../../src/api/names.js';
import type { JobKind } from '../../src/gangs/kinds.js';
import { JOB_KINDS } from '../../src/gangs/kinds.js';
import { componentLabels } from './labels.js';
import type { Manifest } from './yaml.js';

/** One PolicyRule. No wildcards: a unit test refuses them, and the audit log of the integration tests shows unused verbs. */
export interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
  resourceNames?: string[];
}

/** What one service account may do: everywhere, and in the namespace of the installation only. */
export interface Grants {
  account: string;
  component: string;
  cluster: Rule[];
  own: Rule[];
}

const READ = ['list', 'watch'];
const KUEUE = 'kueue.x-k8s.io';

const rule = (apiGroup: string, resources: string[], verbs: string[], resourceNames?: string[]): Rule => ({
  apiGroups: [apiGroup],
  resources,
  verbs,
  ...(resourceNames === undefined ? {} : { resourceNames }),
});

/** A Lease that is created when absent; `create` cannot be limited to a name. */
const lease = (name: string): Rule[] => [
  rule('coordination.k8s.io', ['leases'], ['create']),
  rule('coordination.k8s.io', ['leases'], ['get', 'patch'], [name]),
];

const events = rule('events.k8s.io', ['events'], ['create', 'patch']);

const webhook: Grants = {
  account: INSTALL.webhook,
  component: 'webhook',
  cluster: [
    rule(GROUP, ['accelerationpolicies', 'imageprewarms'], READ),
    // Counts of decisions and the last problem; conditions are the controller's.
    rule(GROUP, ['accelerationpolicies/status'], ['patch']),
    // get: a Pod may come in before the reflector has seen its new namespace.
    rule('', ['namespaces'], ['get', ...READ]),
    rule('admissionregistration.k8s.io', ['mutatingwebhookconfigurations'], [...READ, 'patch'], [INSTALL.webhookConfiguration]),
    // Watchdog: it may end a hold (status of our check) and nothing else of a Workload; gates are in the role below that nobody has.
    rule(KUEUE, ['workloads', 'admissionchecks'], READ),
    rule(KUEUE, ['workloads/status'], ['patch']),
    events,
  ],
  own: [
    rule('', ['secrets'], ['create']),
    rule('', ['secrets'], ['get', 'patch'], [INSTALL.caSecret]),
    rule('', ['configmaps'], READ, [INSTALL.nodeClasses]),
    // Where nodes.steer is Preferred: which nodes hold an image is told to Pods.
    rule('apps', ['daemonsets'], READ),
    ...lease(INSTALL.watchdogLease),
  ],
};

/**
 * What may opt a gang in; Pods are read anyway. get: a job that nobody queues is looked at once more before what it runs is changed.
 * Kinds that the API server does not serve are never asked for.
 */
function owners(): Rule[] {
  const kinds = JOB_KINDS.filter((k) => k.group !== '');
  const byGroup = (some: readonly JobKind[], verbs: string[]): Rule[] =>
    [...new Set(some.map((k) => k.group))].map((group) =>
      rule(
        group,
        some.filter((k) => k.group === group).map((k) => k.plural),
        verbs,
      ),
    );
  return [
    ...byGroup(
      kinds.filter((k) => k.shape !== undefined),
      ['get', ...READ],
    ),
    ...byGroup(
      kinds.filter((k) => k.shape === undefined),
      READ,
    ),
  ];
}

const controller: Grants = {
  account: INSTALL.controller,
  component: 'controller',
  cluster: [
    rule(GROUP, ['imageprewarms'], [...READ, 'create', 'patch', 'delete']),
    rule(GROUP, ['imageprewarms/status', 'accelerationpolicies/status'], ['patch']),
    rule(GROUP, ['accelerationpolicies', 'prewarmcheckconfigs'], READ),
    rule('', ['nodes', 'namespaces'], READ),
    ...owners(),
    rule('node.k8s.io', ['runtimeclasses'], READ),
    // Everywhere: a variant that a node cannot pull shows in the Pods of its tenant only. The label harbinger.dev/accelerated
    // selects what is read, which RBAC cannot say. Pullers are read by the same rule.
    rule('', ['pods'], READ),
    // get: what a gang runs is changed only after a look at its Workload that no cache gave. patch stamps the deadline of a hold.
    rule(KUEUE, ['workloads'], ['get', ...READ, 'patch']),
    rule(KUEUE, ['workloads/status', 'admissionchecks/status'], ['patch']),
    rule(KUEUE, ['admissionchecks', 'clusterqueues', 'localqueues', 'resourceflavors'], READ),
    // Everywhere, by label, since tenants may have pullers too; they are made only where a namespace allows it.
    rule('apps', ['daemonsets'], READ),
    events,
  ],
  own: [
    rule('apps', ['daemonsets'], ['create', 'patch', 'delete']),
    // create cannot be limited to a name.
    rule('', ['configmaps'], ['create']),
    rule('', ['configmaps'], ['get', 'patch'], [INSTALL.nodeClasses]),
    // A DaemonSet whose Pods are refused says so in an event only.
    rule('events.k8s.io', ['events'], READ),
    ...lease(INSTALL.controllerLease),
  ],
};

export const GRANTS: readonly Grants[] = [webhook, controller];

/** Service accounts, roles and bindings for an installation in `namespace`. */
export function rbac(namespace: string): Manifest[] {
  const puller: Manifest = {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: INSTALL.puller, namespace, labels: componentLabels('puller') },
    automountServiceAccountToken: false,
  };
  // Bound to nobody: a RoleBinding in a namespace lets the webhook look its images up as its Pods would pull them.
  const pullSecrets: Manifest = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: INSTALL.pullSecretsRole, labels: componentLabels('webhook') },
    rules: [rule('', ['secrets', 'serviceaccounts'], ['get'])],
  };
  // Bound to nobody: a RoleBinding in a namespace lets the controller look images up and pull them there as its Pods would.
  const workloadPullers: Manifest = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: INSTALL.workloadPullersRole, labels: componentLabels('controller') },
    rules: [
      rule('', ['secrets', 'serviceaccounts'], ['get']),
      rule('apps', ['daemonsets'], ['create', 'patch', 'delete']),
      // Why a DaemonSet gets no Pods stands there only.
      rule('events.k8s.io', ['events'], ['list']),
    ],
  };
  // Bound to nobody: with holds.gatedJobs On, whoever wants it binds it to both processes, in all namespaces or in some.
  const gated = JOB_KINDS.filter((k) => k.gated === true);
  const gatedJobs: Manifest = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: INSTALL.gatedJobsRole, labels: componentLabels('controller') },
    rules: [
      ...[...new Set(gated.map((k) => k.group))].map((group) =>
        rule(
          group,
          gated.filter((k) => k.group === group).map((k) => k.plural),
          ['get', 'patch'],
        ),
      ),
      // Kueue does not copy the list of every job to its Workload; the controller may do this anyway, the watchdog may not.
      rule(KUEUE, ['workloads'], ['patch']),
    ],
  };
  return [puller, pullSecrets, workloadPullers, gatedJobs, ...GRANTS.flatMap((grants) => accountObjects(grants, namespace))];
}

function accountObjects({ account, component, cluster, own }: Grants, namespace: string): Manifest[] {
  const labels = componentLabels(component);
  const role = (kind: string, rules: Rule[], where: object): Manifest => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata: { name: account, ...where, labels },
    rules,
  });
  const binding = (kind: string, where: object): Manifest => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: `${kind}Binding`,
    metadata: { name: account, ...where, labels },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: account },
    subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
  });
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace, labels } },
    role('ClusterRole', cluster, {}),
    binding('ClusterRole', {}),
    role('Role', own, { namespace }),
    binding('Role', { namespace }),
  ];
}
