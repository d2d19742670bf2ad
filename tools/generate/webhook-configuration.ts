import { INSTALL, LABEL, unservedNamespaces } from '../../src/api/names.js';
import { componentLabels } from './labels.js';
import type { Manifest } from './yaml.js';

/** Which namespaces are seen, by their label; in the chart a template expression of the configured scope. */
export interface ScopeTerm {
  operator: string;
  value: string;
}

/**
 * The admission webhook. It fails open, is called for new containers only, and never sees Pods that the API server must be able to
 * create while Harbinger is down. caBundle is left out: the webhook's replicas own that field.
 */
export function webhookConfiguration(namespace: string, scope: ScopeTerm): Manifest {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: INSTALL.webhookConfiguration, labels: componentLabels('webhook') },
    webhooks: [
      {
        name: INSTALL.webhookName,
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        failurePolicy: 'Ignore',
        matchPolicy: 'Equivalent',
        // A later webhook may add containers, whose images are then looked at as well.
        reinvocationPolicy: 'IfNeeded',
        timeoutSeconds: 3,
        clientConfig: { service: { namespace, name: INSTALL.webhook, path: INSTALL.webhookPath, port: 443 } },
        rules: [
          { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'], scope: 'Namespaced' },
          // What kubectl debug adds; looked at only where rewrite.ephemeralContainers says so.
          {
            apiGroups: [''],
            apiVersions: ['v1'],
            resources: ['pods/ephemeralcontainers'],
            operations: ['UPDATE'],
            scope: 'Namespaced',
          },
        ],
        namespaceSelector: {
          matchExpressions: [
            { key: LABEL.accelerate, operator: scope.operator, values: [scope.value] },
            { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [...unservedNamespaces(namespace)] },
          ],
        },
        // The same Pods are skipped in the code; here they do not even cost a call.
        matchConditions: [
          { name: 'no-mirror-pods', expression: absent('annotations', 'kubernetes.io/config.mirror') },
          { name: 'no-pullers', expression: absent('labels', LABEL.puller) },
        ],
      },
    ],
  };
}

/** CEL: the Pod has no such annotation or label. */
function absent(map: 'annotations' | 'labels', key: string): string {
  return `!has(object.metadata.${map}) || !('${key}' in object.metadata.${map})`;
}
