import { stringify } from 'yaml';
import { INSTALL } from '../../src/api/names.js';
import { crds } from './crds.js';
import { IMAGE_PREFIX, installObjects } from './manifests.js';
import type { Generated, Manifest } from './yaml.js';
import { HEADER, toYaml } from './yaml.js';

const CHART = 'charts/harbinger';

/** Marks a template expression in a value; the marks are plain characters to YAML, so that numbers stay unquoted. */
const expression = (text: string): string => `⟦${text}⟧`;
const NAMESPACE = expression('.Release.Namespace');
const CONFIG = expression('config');
const byScope = (all: string, labelled: string): string =>
  expression(`ternary "${all}" "${labelled}" (eq .Values.config.scope "AllNamespaces")`);

/** File of each kind of object; a kind that is missing here is an error, so that nothing is left out silently. */
const FILES: Record<string, string> = {
  ServiceAccount: 'rbac',
  ClusterRole: 'rbac',
  ClusterRoleBinding: 'rbac',
  Role: 'rbac',
  RoleBinding: 'rbac',
  ConfigMap: 'config',
  Deployment: 'workloads',
  Service: 'workloads',
  PodDisruptionBudget: 'workloads',
  MutatingWebhookConfiguration: 'webhook-configuration',
  ValidatingAdmissionPolicy: 'puller-policy',
  ValidatingAdmissionPolicyBinding: 'puller-policy',
};

/** Values with the comment that explains each; values.yaml and the table of the README come from here. */
function values(version: string): { path: string; value: unknown; text: string }[] {
  return [
    { path: 'image', value: `${IMAGE_PREFIX}/harbinger:v${version}`, text: 'Image of webhook and controller.' },
    {
      path: 'pullerImage',
      value: `${IMAGE_PREFIX}/puller:v${version}`,
      text: 'Image of the puller program that holds images on nodes; pin it by digest.',
    },
    { path: 'webhook.replicas', value: 2, text: 'Replicas of the webhook; all serve.' },
    { path: 'controller.replicas', value: 2, text: 'Replicas of the controller; one leads.' },
    { path: 'crds.enabled', value: true, text: 'Install and upgrade the CRDs with the chart; they stay when it is removed.' },
    {
      path: 'config',
      value: { mode: 'On', scope: 'LabelledNamespaces', registries: [] },
      text: 'The HarbingerConfig; docs/spec/config.md lists its fields.',
    },
    {
      path: 'registriesSecret',
      value: INSTALL.registriesSecret,
      text: 'Secret whose keys webhook and controller see as files in /etc/harbinger-registries; it need not exist.',
    },
  ];
}

/** Objects of the plain manifests with template expressions for what users choose. */
function templates(): Generated[] {
  const objects = installObjects({
    namespace: NAMESPACE,
    image: expression('.Values.image | quote'),
    pullerImage: expression('.Values.pullerImage'),
    webhookReplicas: expression('.Values.webhook.replicas'),
    controllerReplicas: expression('.Values.controller.replicas'),
    config: CONFIG,
    registriesSecret: expression('.Values.registriesSecret | quote'),
    scope: { operator: byScope('NotIn', 'In'), value: byScope('disabled', 'enabled') },
  });
  const files = new Map<string, Manifest[]>();
  for (const object of objects) {
    const file = FILES[object.kind];
    if (file === undefined) throw new Error(`no chart file for kind ${object.kind}`);
    files.set(file, [...(files.get(file) ?? []), object]);
  }
  return [...files].map(([file, group]) => ({ path: `${CHART}/templates/${file}.yaml`, text: toTemplate(toYaml(group)) }));
}

function toTemplate(yaml: string): string {
  return yaml.replaceAll(CONFIG, '|\n    {{- toYaml .Values.config | nindent 4 }}').replace(/⟦(.*?)⟧/g, '{{ $1 }}');
}

function crdTemplate(): Generated {
  const objects = crds().map(({ object }) => ({
    ...object,
    metadata: { ...object.metadata, annotations: { 'helm.sh/resource-policy': 'keep' } },
  }));
  return { path: `${CHART}/templates/crds.yaml`, text: `{{- if .Values.crds.enabled }}\n${toYaml(objects)}{{- end }}\n` };
}

function valuesFile(version: string): string {
  const groups = new Map<string, string>();
  for (const { path, value, text } of values(version)) {
    const [top = '', inner] = path.split('.');
    const body = stringify(inner === undefined ? { [top]: value } : { [inner]: value }, { lineWidth: 130 });
    const block = `# ${text}\n${body}`;
    const indented = inner === undefined ? block : `${top}:\n${block.replace(/^(?=.)/gm, '  ')}`;
    groups.set(path, indented);
  }
  return HEADER + [...groups.values()].join('\n');
}

/** Unknown values are refused: a misspelt one would otherwise do nothing. */
function valuesSchema(version: string): string {
  const properties: Record<string, unknown> = {};
  for (const { path, value, text } of values(version)) {
    const [top = '', inner] = path.split('.');
    const leaf = { type: typeof value === 'number' ? 'integer' : typeof value, description: text };
    properties[top] = inner === undefined ? leaf : { type: 'object', additionalProperties: false, properties: { [inner]: leaf } };
  }
  const schema = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', additionalProperties: false, properties };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function readme(version: string): string {
  const rows = values(version).map(({ path, value, text }) => `| \`${path}\` | \`${JSON.stringify(value)}\` | ${text} |`);
  return [
    '<!-- Generated by `make generate`. -->',
    '# Harbinger chart',
    '',
    'One installation per cluster: names of cluster-scoped objects are fixed.',
    '',
    '```',
    'helm install harbinger charts/harbinger --namespace harbinger-system --create-namespace \\',
    '  --set image=REGISTRY/harbinger@sha256:... --set pullerImage=REGISTRY/puller@sha256:...',
    '```',
    '',
    'Label the namespace `pod-security.kubernetes.io/enforce=restricted`; all Pods of Harbinger fit that level.',
    'The webhook configuration has no `caBundle`: the webhook writes it and keeps it current.',
    '',
    '| value | default | meaning |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

export function chartFiles(version: string): Generated[] {
  const chart = {
    apiVersion: 'v2',
    name: 'harbinger',
    description: 'Has the images of a gang of Pods on the nodes before the gang is scheduled',
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: '>=1.31.0-0',
  };
  return [
    { path: `${CHART}/Chart.yaml`, text: HEADER + stringify(chart, { lineWidth: 130 }) },
    { path: `${CHART}/values.yaml`, text: valuesFile(version) },
    { path: `${CHART}/values.schema.json`, text: valuesSchema(version) },
    { path: `${CHART}/README.md`, text: readme(version) },
    crdTemplate(),
    ...templates(),
  ];
}
