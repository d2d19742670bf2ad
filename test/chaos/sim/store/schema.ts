import { accelerationPolicySpec } from '../../../../src/api/kinds/acceleration-policy.js';
import { imagePrewarmSpec } from '../../../../src/api/kinds/image-prewarm.js';
import { prewarmCheckConfigSpec } from '../../../../src/api/kinds/prewarm-check-config.js';
import { at } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { refusal } from './errors.js';

/** Our own kinds: their zod schemas are the source of the CRDs, so they say what the API server takes and what it fills in. */
const SPECS = {
  ImagePrewarm: imagePrewarmSpec,
  AccelerationPolicy: accelerationPolicySpec,
  PrewarmCheckConfig: prewarmCheckConfigSpec,
};

/** The object with defaults; throws 422 where the API server would refuse it. */
export function admit(object: Raw, before: Raw | undefined): Raw {
  if (object.kind === 'DaemonSet' && before !== undefined) immutable(object, before);
  // What a status write leaves alone was judged before.
  if (before !== undefined && object['spec'] === before['spec']) return object;
  const schema = SPECS[object.kind as keyof typeof SPECS];
  if (schema === undefined) return object;
  const parsed = schema.safeParse(object['spec'] ?? {});
  if (!parsed.success)
    throw refusal.invalid(`${object.kind} ${object.metadata.name}: ${parsed.error.issues.map((i) => i.message).join('; ')}`);
  return { ...object, spec: parsed.data };
}

function immutable(object: Raw, before: Raw): void {
  if (JSON.stringify(at(object, 'spec', 'selector')) !== JSON.stringify(at(before, 'spec', 'selector')))
    throw refusal.invalid(`DaemonSet ${object.metadata.name}: spec.selector: field is immutable`);
}

/** Kinds whose status is written through a subresource of its own, and whose generation counts changes of the spec. */
export const WITH_STATUS: ReadonlySet<string> = new Set([
  'ImagePrewarm',
  'AccelerationPolicy',
  'PrewarmCheckConfig',
  'DaemonSet',
  'Job',
  'Node',
  'Pod',
  'Workload',
  'ClusterQueue',
  'AdmissionCheck',
]);
