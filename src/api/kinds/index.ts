import type { KubeObject } from '../object.js';
import { API_VERSION, GROUP, VERSION } from '../names.js';
import type { AccelerationPolicySpec } from './acceleration-policy.js';
import { accelerationPolicySpec, accelerationPolicyStatus } from './acceleration-policy.js';
import type { ImagePrewarmSpec, ImagePrewarmStatus } from './image-prewarm.js';
import { imagePrewarmSpec, imagePrewarmStatus } from './image-prewarm.js';
import type { PrewarmCheckConfigSpec } from './prewarm-check-config.js';
import { prewarmCheckConfigSpec, prewarmCheckConfigStatus } from './prewarm-check-config.js';

export interface ImagePrewarm extends KubeObject {
  spec: ImagePrewarmSpec;
  status?: ImagePrewarmStatus;
}
export interface AccelerationPolicy extends KubeObject {
  spec: AccelerationPolicySpec;
  status?: Record<string, unknown>;
}
export interface PrewarmCheckConfig extends KubeObject {
  spec: PrewarmCheckConfigSpec;
}

const ready = (type: string, field: string): string => `.status.conditions[?(@.type=="${type}")].${field}`;

/** What the CRD generator needs to know of each kind beside its schemas. */
export const KINDS = [
  {
    kind: 'ImagePrewarm',
    description: 'Images that have to be on nodes before a gang of Pods is scheduled to them, and how far that is.',
    plural: 'imageprewarms',
    shortNames: ['ipw'],
    scope: 'Namespaced',
    spec: imagePrewarmSpec,
    status: imagePrewarmStatus,
    columns: [
      { name: 'Ready', type: 'string', jsonPath: ready('Ready', 'status') },
      { name: 'Reason', type: 'string', jsonPath: ready('Ready', 'reason') },
      { name: 'Nodes', type: 'string', jsonPath: '.status.progress' },
      { name: 'Failed', type: 'integer', jsonPath: '.status.nodes.failed' },
      { name: 'Gang', type: 'string', jsonPath: '.status.gang', priority: 1 },
      { name: 'Queue', type: 'string', jsonPath: '.status.queue', priority: 1 },
      { name: 'Size', type: 'string', jsonPath: '.status.size', priority: 1 },
      { name: 'Placement', type: 'string', jsonPath: '.status.placement', priority: 1 },
      // A string, not a date: kubectl prints dates as an age, and a future one as <invalid>.
      { name: 'ETA', type: 'string', jsonPath: '.status.estimatedCompletionTime', priority: 1 },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ],
  },
  {
    kind: 'AccelerationPolicy',
    description: 'Lets images of new Pods be replaced by accelerated variants of the same program.',
    plural: 'accelerationpolicies',
    shortNames: ['accpol'],
    scope: 'Cluster',
    spec: accelerationPolicySpec,
    status: accelerationPolicyStatus,
    columns: [
      { name: 'Mode', type: 'string', jsonPath: '.spec.mode' },
      { name: 'Priority', type: 'integer', jsonPath: '.spec.priority' },
      { name: 'Ready', type: 'string', jsonPath: ready('Ready', 'status') },
      { name: 'Reason', type: 'string', jsonPath: ready('Ready', 'reason') },
      { name: 'Accelerated', type: 'integer', jsonPath: '.status.decisions.accelerated' },
      { name: 'Left', type: 'integer', jsonPath: '.status.decisions.left' },
      { name: 'Message', type: 'string', jsonPath: ready('Ready', 'message'), priority: 1 },
      { name: 'Problem', type: 'string', jsonPath: '.status.lastProblem.outcome', priority: 1 },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ],
  },
  {
    kind: 'PrewarmCheckConfig',
    description: 'How a Kueue AdmissionCheck that Harbinger answers holds gangs.',
    plural: 'prewarmcheckconfigs',
    shortNames: ['pwcheck'],
    scope: 'Cluster',
    spec: prewarmCheckConfigSpec,
    status: prewarmCheckConfigStatus,
    columns: [
      { name: 'Hold', type: 'integer', jsonPath: '.spec.defaultHoldSeconds' },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ],
  },
] as const;

export { API_VERSION, GROUP, VERSION };
