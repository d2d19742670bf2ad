import type { ImagePrewarmStatus } from '../api/kinds/image-prewarm.js';
import type { Condition } from '../api/conditions.js';
import type { PolicyStatus } from '../api/kinds/acceleration-policy.js';
import { API_VERSION, FIELD_MANAGER, INSTALL } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import type { KubePort, ObjectName, PatchOp } from '../kube/port.js';
import type { Resource } from '../kube/resources.js';
import { RESOURCE, apiVersionOf } from '../kube/resources.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';

/** A namespaced object whose state was read at `resourceVersion`: a write that comes too late fails with a conflict. */
interface Seen {
  namespace: string;
  name: string;
  resourceVersion: string;
}

/**
 * Everything that the controller ever writes, in one union: what is not here cannot happen, and the crash tests make a row before
 * and one after each of them. Each is idempotent; the next look at the cluster decides whether it is needed again.
 */
export type Action =
  | { type: 'apply-prewarm'; object: KubeObject }
  | { type: 'write-prewarm-status'; prewarm: Seen; status: ImagePrewarmStatus }
  | { type: 'delete-prewarm'; prewarm: ObjectName & { uid: string } }
  /** `takeOver`: what stands there under the name is ours whatever it is, as in our own namespace. */
  | { type: 'create-pullers'; object: KubeObject; takeOver: boolean }
  | { type: 'update-pullers'; object: KubeObject }
  | { type: 'delete-pullers'; set: ObjectName & { uid: string } }
  | { type: 'stamp-deadline'; workload: Seen; ops: readonly PatchOp[] }
  | { type: 'write-check'; workload: Seen; ops: readonly PatchOp[] }
  | { type: 'remove-gate'; resource: Resource; job: ObjectName; ops: readonly PatchOp[] }
  | { type: 'activate-check'; name: string; condition: Condition }
  | { type: 'write-policy-status'; name: string; status: PolicyStatus }
  | { type: 'publish-node-classes'; namespace: string; data: Record<string, string> };

type HoldAction = Extract<Action, { ops: readonly PatchOp[] }>;

export type ActionType = Action['type'];

/** The names of the union; the type forces the list to be complete. */
export const ACTION_TYPES = Object.keys({
  'apply-prewarm': 0,
  'write-prewarm-status': 0,
  'delete-prewarm': 0,
  'create-pullers': 0,
  'update-pullers': 0,
  'delete-pullers': 0,
  'stamp-deadline': 0,
  'write-check': 0,
  'remove-gate': 0,
  'activate-check': 0,
  'write-policy-status': 0,
  'publish-node-classes': 0,
} satisfies Record<ActionType, 0>) as ActionType[];

export interface ActuatorOptions {
  client: KubePort;
  log: Log;
  metrics: Metrics;
  /** Whether this process still holds the Lease, judged by a clock that also runs while the process is frozen. */
  leading: () => boolean;
  /** Called around every action; see failpoint.ts. */
  failpoint: (at: `before:${ActionType}` | `after:${ActionType}`) => void;
}

/** The only place that writes to the API server. */
export class Actuator {
  readonly #options: ActuatorOptions;

  constructor(options: ActuatorOptions) {
    this.#options = options;
  }

  /** Carries out one action and returns what the API server stored, where it says so. Rejects with KubeError. */
  async perform(action: Action): Promise<KubeObject | undefined> {
    const { failpoint, leading, log, metrics } = this.#options;
    // A process that was frozen wakes up in the middle of its work; another one may have taken over meanwhile.
    if (!leading()) throw new Error(`${action.type} is not done: the lease is not held any more`);
    failpoint(`before:${action.type}`);
    const result = await this.#write(action);
    metrics
      .counter('harbinger_actions_total', 'Writes to the API server by kind of action.', { type: ACTION_TYPES })
      .inc({ type: action.type });
    log.debug({ action: action.type }, 'done');
    failpoint(`after:${action.type}`);
    return result ?? undefined;
  }

  #write(action: Action): Promise<KubeObject | void> {
    const { client } = this.#options;
    if ('ops' in action) return this.#hold(action);
    switch (action.type) {
      case 'apply-prewarm':
        return client.apply(RESOURCE.imagePrewarms, action.object, FIELD_MANAGER.gangs);
      case 'write-prewarm-status':
        return client.apply(RESOURCE.imagePrewarms, statusObject(action), FIELD_MANAGER.status, { subresource: 'status' });
      case 'delete-prewarm':
        return client.delete(RESOURCE.imagePrewarms, nameOf(action.prewarm), { uid: action.prewarm.uid });
      case 'create-pullers':
        return action.takeOver
          ? client.apply(RESOURCE.daemonSets, action.object, FIELD_MANAGER.pullers)
          : client.create(RESOURCE.daemonSets, action.object);
      case 'update-pullers':
        return client.apply(RESOURCE.daemonSets, action.object, FIELD_MANAGER.pullers);
      case 'delete-pullers':
        return client.delete(RESOURCE.daemonSets, nameOf(action.set), { uid: action.set.uid });
      case 'activate-check':
        return client.apply(RESOURCE.admissionChecks, checkObject(action), FIELD_MANAGER.checks, { subresource: 'status' });
      case 'write-policy-status':
        return client.apply(RESOURCE.accelerationPolicies, policyObject(action), FIELD_MANAGER.status, { subresource: 'status' });
      case 'publish-node-classes':
        return client.apply(RESOURCE.configMaps, classesObject(action), FIELD_MANAGER.nodeClasses);
    }
  }

  /** Writes that begin or end a hold on a gang. */
  #hold(action: HoldAction): Promise<KubeObject> {
    const { client } = this.#options;
    switch (action.type) {
      case 'stamp-deadline':
        return client.patch(RESOURCE.workloads, nameOf(action.workload), { type: 'json', ops: guarded(action) });
      case 'write-check':
        return client.patch(
          RESOURCE.workloads,
          nameOf(action.workload),
          { type: 'json', ops: guarded(action) },
          { subresource: 'status' },
        );
      case 'remove-gate':
        return client.patch(action.resource, nameOf(action.job), { type: 'json', ops: action.ops });
    }
  }
}

function nameOf({ namespace, name }: ObjectName): ObjectName {
  return namespace === undefined ? { name } : { namespace, name };
}

/** Without the test a late patch could bring back Ready after an eviction has reset it. */
function guarded({ workload, ops }: { workload: Seen; ops: readonly PatchOp[] }): PatchOp[] {
  return [{ op: 'test', path: '/metadata/resourceVersion', value: workload.resourceVersion }, ...ops];
}

function statusObject({ prewarm, status }: { prewarm: Seen; status: ImagePrewarmStatus }): KubeObject {
  return { apiVersion: API_VERSION, kind: 'ImagePrewarm', metadata: { ...prewarm }, status } as KubeObject;
}

function checkObject({ name, condition }: { name: string; condition: Condition }): KubeObject {
  const resource = RESOURCE.admissionChecks;
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: { name },
    status: { conditions: [condition] },
  } as KubeObject;
}

function policyObject({ name, status }: { name: string; status: PolicyStatus }): KubeObject {
  return { apiVersion: API_VERSION, kind: 'AccelerationPolicy', metadata: { name }, status } as KubeObject;
}

function classesObject({ namespace, data }: { namespace: string; data: Record<string, string> }): KubeObject {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: INSTALL.nodeClasses }, data } as KubeObject;
}
