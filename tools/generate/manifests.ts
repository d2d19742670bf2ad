import { INSTALL } from '../../src/api/names.js';
import { crds } from './crds.js';
import { PART_OF } from './labels.js';
import { pullerPolicy } from './puller-policy.js';
import { rbac } from './rbac.js';
import { webhookConfiguration } from './webhook-configuration.js';
import type { Install } from './workloads.js';
import { workloads } from './workloads.js';
import type { Generated, Manifest } from './yaml.js';
import { toYaml } from './yaml.js';

/** Images are built and pushed by whoever installs; the host is a reserved name so that nobody can publish under it. */
export const IMAGE_PREFIX = 'registry.example.com/harbinger';

/** Starting point for users; every field and its default is in docs/spec/config.md. */
export const EXAMPLE_CONFIG = ['mode: On', 'scope: LabelledNamespaces', 'registries: []', ''].join('\n');

/** What `manifests/harbinger.yaml` installs. */
export function defaultInstall(version: string): Install {
  return {
    namespace: INSTALL.namespace,
    image: `${IMAGE_PREFIX}/harbinger:v${version}`,
    pullerImage: `${IMAGE_PREFIX}/puller:v${version}`,
    webhookReplicas: 2,
    controllerReplicas: 2,
    config: EXAMPLE_CONFIG,
    registriesSecret: INSTALL.registriesSecret,
    scope: { operator: 'In', value: 'enabled' },
  };
}

/** Everything but CRDs and the namespace, in an order in which each object finds what it refers to. */
export function installObjects(install: Install): Manifest[] {
  const { namespace, pullerImage, scope } = install;
  return [
    ...rbac(namespace),
    ...workloads(install),
    webhookConfiguration(namespace, scope),
    ...pullerPolicy(namespace, pullerImage),
  ];
}

function namespaceObject(name: string): Manifest {
  // Our own Pods, pullers among them, keep the strictest level.
  const labels = { ...PART_OF, 'pod-security.kubernetes.io/enforce': 'restricted' };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

export function manifestFiles(version: string): Generated[] {
  const install = defaultInstall(version);
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [...crds().map(({ file }) => file.replace('manifests/', '')), 'harbinger.yaml'],
  };
  return [
    ...crds().map(({ file, object }) => ({ path: file, text: toYaml([object]) })),
    { path: 'manifests/harbinger.yaml', text: toYaml([namespaceObject(install.namespace), ...installObjects(install)]) },
    { path: 'manifests/kustomization.yaml', text: toYaml([kustomization as unknown as Manifest]) },
  ];
}
