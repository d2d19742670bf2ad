import type { Json } from '../../../api/json.js';
import { at, record, records } from '../../../api/json.js';
import { IMAGE_VOLUME, warmingOf } from '../../../api/puller-spec.js';
import { PROGRAM_VOLUME } from './manifest.js';

const HOST_FIELDS = [
  'hostNetwork',
  'hostPID',
  'hostIPC',
  'shareProcessNamespace',
  'nodeName',
  'resourceClaims',
  'priorityClassName',
];
const CONTAINER_FIELDS = [
  'env',
  'envFrom',
  'ports',
  'lifecycle',
  'livenessProbe',
  'readinessProbe',
  'volumeDevices',
  'args',
  'tty',
];

/**
 * Whether Pods of this spec can do nothing that pullers do not: one container of ours, no token, nothing of the host, nothing of
 * secrets, no volume but the image and our program. The admission policy of the manifests asks the same of our own account.
 */
export function isHarmless(spec: Json): boolean {
  const { method } = warmingOf(spec);
  const [containers, inits] = [records(spec['containers']), records(spec['initContainers'])];
  const counts = containers.length === 1 && inits.length === (method === 'Container' ? 1 : 0);
  return (
    counts &&
    spec['automountServiceAccountToken'] === false &&
    HOST_FIELDS.every((f) => isUnset(spec[f])) &&
    records(spec['volumes']).every(isHarmlessVolume) &&
    [...containers, ...inits].every(isHarmlessContainer)
  );
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === false || value === '' || (Array.isArray(value) && value.length === 0);
}

function isHarmlessVolume(volume: Json): boolean {
  const sources = Object.keys(volume).filter((k) => k !== 'name');
  const allowed = volume['name'] === PROGRAM_VOLUME ? 'emptyDir' : volume['name'] === IMAGE_VOLUME ? 'image' : undefined;
  // An image volume that was dropped is stored as an emptyDir.
  return sources.every((s) => s === allowed || (allowed === 'image' && s === 'emptyDir'));
}

function isHarmlessContainer(container: Json): boolean {
  const context = at(container, 'securityContext');
  const [program] = Array.isArray(container['command']) ? (container['command'] as unknown[]) : [];
  return (
    CONTAINER_FIELDS.every((f) => isUnset(container[f])) &&
    typeof program === 'string' &&
    /^(\/\.harbinger)?\/puller$/.test(program) &&
    context['allowPrivilegeEscalation'] === false &&
    isUnset(context['privileged']) &&
    record(context['capabilities'])?.['add'] === undefined
  );
}
