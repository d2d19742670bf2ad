import { INSTALL, LABEL } from '../../src/api/names.js';
import { componentLabels } from './labels.js';
import type { Manifest } from './yaml.js';

const POD = 'variables.pod';
const DIGEST = '@sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$';

/** CEL: none of these fields of `object` is there. */
const without = (object: string, fields: readonly string[]): string => fields.map((f) => `!has(${object}.${f})`).join(' && ');
/** CEL: these fields of `object` are absent or false. */
const off = (object: string, fields: readonly string[]): string =>
  fields.map((f) => `(!has(${object}.${f}) || !${object}.${f})`).join(' && ');

const MAKE = "Harbinger's controller may make pullers only";
/** CEL: what is there already has the name, and the label, of a puller. */
const NAMED = `oldObject.metadata.name.startsWith('puller-')`;
const LABELLED = `(has(oldObject.metadata.labels) && '${LABEL.puller}' in oldObject.metadata.labels)`;
/** CEL: of an object that is about to be there; one that is deleted has only an old one. */
const made = (expression: string): string => `request.operation == 'DELETE' || (${expression})`;

/** What a DaemonSet of the controller has to be, and what is said where it is not. */
const VALIDATIONS: readonly { expression: string; message: string }[] = [
  {
    expression: `object.metadata.name.startsWith('puller-') && has(object.spec.template.metadata.labels) && '${LABEL.puller}' in object.spec.template.metadata.labels`,
    message: 'the name or the label of a puller is missing',
  },
  {
    expression: `${off(POD, ['hostNetwork', 'hostPID', 'hostIPC', 'shareProcessNamespace'])} && ${without(POD, ['nodeName', 'resourceClaims', 'priorityClassName'])}`,
    message: 'pullers have nothing of the host and no priority',
  },
  {
    expression: `has(${POD}.automountServiceAccountToken) && !${POD}.automountServiceAccountToken`,
    message: 'pullers have no token',
  },
  {
    expression: `has(${POD}.securityContext) && has(${POD}.securityContext.runAsNonRoot) && ${POD}.securityContext.runAsNonRoot`,
    message: 'pullers do not run as root',
  },
  {
    // An API server without image volumes has dropped the source, and put an emptyDir in its place, before policies see the object.
    expression: `!has(${POD}.volumes) || ${POD}.volumes.all(v, (has(v.image) && has(v.image.reference) && v.image.reference.matches('${DIGEST}')) || has(v.emptyDir))`,
    message: 'pullers mount nothing but an image by digest and an emptyDir',
  },
  {
    expression: `${POD}.containers.size() == 1 && (variables.inits.size() == 0 ? ${POD}.containers[0].image == variables.program : variables.inits.size() == 1 && variables.inits[0].image == variables.program && ${POD}.containers[0].image.matches('${DIGEST}'))`,
    message: 'pullers run the puller program of this installation, and otherwise only an image by digest',
  },
  {
    expression: `variables.all.all(c, has(c.command) && c.command.size() > 0 && c.command[0] in ['/puller', '/.harbinger/puller'])`,
    message: 'pullers run nothing but the puller program',
  },
  {
    expression: `variables.all.all(c, ${without('c', ['args', 'env', 'envFrom', 'ports', 'lifecycle', 'livenessProbe', 'readinessProbe', 'volumeDevices'])})`,
    message: 'pullers have no environment, ports, hooks or devices',
  },
  {
    // Kubelets send what a probe says from their own network.
    expression: `variables.all.all(c, !has(c.startupProbe) || (has(c.startupProbe.exec) && has(c.startupProbe.exec.command) && c.startupProbe.exec.command.size() > 0 && c.startupProbe.exec.command[0] == c.command[0]))`,
    message: 'probes of pullers run the puller program and nothing else',
  },
  {
    expression: [
      'variables.all.all(c, has(c.securityContext)',
      off('c.securityContext', ['privileged']),
      'has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPrivilegeEscalation',
      `has(c.securityContext.capabilities) && !has(c.securityContext.capabilities.add) && has(c.securityContext.capabilities.drop) && 'ALL' in c.securityContext.capabilities.drop`,
      `${without('c.securityContext', ['runAsUser', 'runAsNonRoot', 'procMount', 'seLinuxOptions'])})`,
    ].join(' && '),
    message: 'containers of pullers have no privileges',
  },
];

/**
 * Limits what the controller's account may do with its right to make DaemonSets: in namespaces of tenants that right could otherwise
 * read their secrets or take over nodes. It holds for that account only and for nobody else's DaemonSets.
 */
export function pullerPolicy(namespace: string, program: string): Manifest[] {
  const metadata = { name: INSTALL.pullerPolicy, labels: componentLabels('controller') };
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const inits = `has(${POD}.initContainers) ? ${POD}.initContainers : []`;
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [
            { apiGroups: ['apps'], apiVersions: ['v1'], resources: ['daemonsets'], operations: ['CREATE', 'UPDATE', 'DELETE'] },
          ],
        },
        matchConditions: [
          {
            name: 'controller',
            expression: `request.userInfo.username == 'system:serviceaccount:${namespace}:${INSTALL.controller}'`,
          },
        ],
        variables: [
          { name: 'pod', expression: 'object.spec.template.spec' },
          { name: 'inits', expression: inits },
          { name: 'all', expression: `${POD}.containers + variables.inits` },
          { name: 'program', expression: `'${program}'` },
        ],
        validations: [
          ...VALIDATIONS.map((v) => ({ expression: made(v.expression), message: `${MAKE}: ${v.message}` })),
          {
            expression: made(`object.metadata.namespace != '${namespace}' || ${POD}.serviceAccountName == '${INSTALL.puller}'`),
            message: `${MAKE}: in its own namespace they have account ${INSTALL.puller}`,
          },
          {
            // In its own namespace either will do: what was edited there by hand is put right, and what has only our label goes.
            expression: `request.operation == 'CREATE' || (oldObject.metadata.namespace == '${namespace}' ? ${NAMED} || ${LABELLED} : ${NAMED} && ${LABELLED})`,
            message: `${MAKE}: what is there is none, so it is neither changed nor deleted`,
          },
        ],
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: INSTALL.pullerPolicy, validationActions: ['Deny'] },
    },
  ];
}
