import { INSTALL } from '../../src/api/names.js';
import { componentLabels, selectorLabels } from './labels.js';
import type { ScopeTerm } from './webhook-configuration.js';
import type { Manifest } from './yaml.js';

/** What differs between the plain manifests and the chart; in the chart the values are template expressions. */
export interface Install {
  namespace: string;
  image: string;
  pullerImage: string;
  webhookReplicas: number | string;
  controllerReplicas: number | string;
  /** Text of the HarbingerConfig. */
  config: string;
  /** Name of the Secret with credentials and authorities of registries; it need not exist. */
  registriesSecret: string;
  scope: ScopeTerm;
}

const PORT = { webhook: 8443, health: 8080 };
const CONFIG_DIR = '/etc/harbinger';
/** Where the keys of the Secret appear as files; not below the other one, where no directory can be made. */
const REGISTRIES_DIR = '/etc/harbinger-registries';

interface Component {
  name: string;
  component: string;
  replicas: number | string;
  args: string[];
  ports: { name: string; containerPort: number }[];
}

/** Deployments, Service, disruption budget and configuration. */
export function workloads(install: Install): Manifest[] {
  const { namespace } = install;
  const webhook = componentLabels('webhook');
  return [
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: INSTALL.configMap, namespace, labels: componentLabels('config') },
      data: { 'config.yaml': install.config },
    },
    deployment(install, {
      name: INSTALL.webhook,
      component: 'webhook',
      replicas: install.webhookReplicas,
      args: [`--port=${PORT.webhook}`, `--serving-name=${INSTALL.webhook}.${namespace}.svc`],
      ports: [{ name: 'webhook', containerPort: PORT.webhook }],
    }),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: INSTALL.webhook, namespace, labels: webhook },
      spec: {
        selector: selectorLabels('webhook'),
        ports: [{ name: 'webhook', port: 443, targetPort: 'webhook', protocol: 'TCP' }],
      },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: INSTALL.webhook, namespace, labels: webhook },
      // A replica that is not ready must not block the drain of its node.
      spec: { minAvailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow', selector: { matchLabels: selectorLabels('webhook') } },
    },
    deployment(install, {
      name: INSTALL.controller,
      component: 'controller',
      replicas: install.controllerReplicas,
      args: [`--puller-image=${install.pullerImage}`],
      ports: [],
    }),
  ];
}

function deployment(install: Install, c: Component): Manifest {
  const selector = selectorLabels(c.component);
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: c.name, namespace: install.namespace, labels: componentLabels(c.component) },
    spec: {
      replicas: c.replicas,
      // A roll-out never has fewer replicas than before: Pods that come meanwhile would not be rewritten.
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      selector: { matchLabels: selector },
      template: { metadata: { labels: componentLabels(c.component) }, spec: podSpec(install, c, selector) },
    },
  };
}

function podSpec(install: Install, c: Component, selector: Record<string, string>): Record<string, unknown> {
  return {
    serviceAccountName: c.name,
    // Service variables (HARBINGER_WEBHOOK_PORT=tcp://...) would read like flags of ours.
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 30,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    topologySpreadConstraints: ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'].map((topologyKey) => ({
      maxSkew: 1,
      topologyKey,
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: selector },
    })),
    containers: [container(install, c)],
    volumes: [
      { name: 'config', configMap: { name: INSTALL.configMap } },
      { name: 'registries', secret: { secretName: install.registriesSecret, optional: true } },
    ],
  };
}

function container(install: Install, c: Component): Record<string, unknown> {
  const probe = (path: string, periodSeconds: number): Record<string, unknown> => ({
    httpGet: { path, port: 'health' },
    periodSeconds,
    timeoutSeconds: 2,
  });
  return {
    name: c.component,
    image: install.image,
    args: [
      c.component,
      `--namespace=${install.namespace}`,
      `--config=${CONFIG_DIR}/config.yaml`,
      `--health-port=${PORT.health}`,
      ...c.args,
    ],
    ports: [...c.ports, { name: 'health', containerPort: PORT.health }],
    // No CPU limit: throttling would turn into admission timeouts. The heap stays well below the memory limit.
    env: [{ name: 'NODE_OPTIONS', value: '--max-old-space-size=256' }],
    resources: { requests: { cpu: '100m', memory: '160Mi' }, limits: { memory: '384Mi' } },
    readinessProbe: probe('/readyz', 5),
    livenessProbe: { ...probe('/healthz', 10), failureThreshold: 6 },
    securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
    volumeMounts: [
      { name: 'config', mountPath: CONFIG_DIR, readOnly: true },
      { name: 'registries', mountPath: REGISTRIES_DIR, readOnly: true },
    ],
  };
}
