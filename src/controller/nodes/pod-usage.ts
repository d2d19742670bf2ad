import type { Json } from '../../api/json.js';
import { at, present, records, string, stringMap, time } from '../../api/json.js';
import { ANNOTATION, LABEL } from '../../api/names.js';
import { podRequests } from '../../api/pod-requests.js';
import { gangKeys, gangKeysOfPod } from '../../gangs/identity.js';
import type { RawObject } from '../../kube/reflector.js';
import { schedulerUnits } from '../../placement/scheduler-units.js';
import type { PodShape, PodState, PodUse } from '../../placement/usage.js';

/** Most shapes that are shared; above it sharing begins anew, which costs memory and nothing else. */
const MAX_SHAPES = 20_000;
/** Waiting reasons of a container whose kubelet is at work, or about to be; all others are failures that may last. */
const AT_WORK: ReadonlySet<string> = new Set(['ContainerCreating', 'PodInitializing', '']);
const POD_GROUP = 'kueue.x-k8s.io/pod-group-name';

/** Projects Pods to what placement needs of them; equal Pods of one gang share what is equal. */
export class PodUsages {
  readonly #shapes = new Map<string, PodShape>();

  /** Total: what cannot be read counts as absent. */
  readonly project = (raw: RawObject): PodUse => {
    const spec = at(raw, 'spec');
    return present<PodUse>({
      namespace: raw.metadata.namespace ?? '',
      node: string(spec['nodeName']) ?? '',
      state: stateOf(raw),
      createdAt: time(raw.metadata.creationTimestamp) ?? 0,
      queuedAs: queuedAs(raw),
      shape: this.#share(shapeOf(raw, spec)),
    });
  };

  #share(shape: PodShape): PodShape {
    const key = JSON.stringify(shape);
    const known = this.#shapes.get(key);
    if (known !== undefined) return known;
    if (this.#shapes.size >= MAX_SHAPES) this.#shapes.clear();
    this.#shapes.set(key, shape);
    return shape;
  }
}

/** Pullers ask for nothing and are no reason to keep another puller from a node. */
function shapeOf(raw: RawObject, spec: Json): PodShape {
  if (isPuller(raw)) return { requests: {}, gangs: [], images: [], undecided: [] };
  const containers = [...records(spec['initContainers']), ...records(spec['containers'])];
  const pulled = containers.filter((c) => c['imagePullPolicy'] !== 'Never');
  const annotations = stringMap(raw.metadata.annotations);
  const skipped = new Set((annotations[ANNOTATION.skipContainers] ?? '').split(',').map((name) => name.trim()));
  const decided = annotations[ANNOTATION.decisions] !== undefined || annotations[ANNOTATION.accelerate] === 'false';
  return {
    requests: schedulerUnits(podRequests(spec)),
    gangs: gangKeysOfPod(raw),
    images: imagesOf(pulled),
    undecided: decided ? [] : imagesOf(pulled.filter((c) => !skipped.has(string(c['name']) ?? ''))),
  };
}

function imagesOf(containers: readonly Json[]): string[] {
  return [...new Set(containers.map((c) => string(c['image'])).filter((i) => i !== undefined))];
}

function isPuller(raw: RawObject): boolean {
  return stringMap(raw.metadata.labels)[LABEL.puller] !== undefined;
}

/**
 * Of a group of plain Pods the Workload stands for the gang, which has the name of the group, and else the Pod itself
 * (Kueue pkg/controller/jobs/pod, workloadName). The name of the group is a label or, by a feature gate, an annotation.
 */
function queuedAs({ metadata }: RawObject): string | undefined {
  const labels = stringMap(metadata.labels);
  if (labels['kueue.x-k8s.io/managed'] !== 'true') return undefined;
  const group = stringMap(metadata.annotations)[POD_GROUP] ?? labels[POD_GROUP];
  if (!group) return metadata.uid;
  return gangKeys({ apiGroup: 'kueue.x-k8s.io', kind: 'Workload', name: group })[0];
}

function stateOf(raw: RawObject): PodState {
  const { phase, containerStatuses, initContainerStatuses } = at(raw, 'status');
  if (phase === 'Succeeded') return 'done';
  if (phase === 'Failed') return 'over';
  if (raw.metadata.deletionTimestamp !== undefined) return 'leaving';
  if (phase === 'Running') return 'running';
  if (string(at(raw, 'spec')['nodeName']) === undefined || isPuller(raw)) return 'waiting';
  const statuses = [...records(initContainerStatuses), ...records(containerStatuses)];
  const atWork = statuses.every((s) => AT_WORK.has(string(at(s, 'state', 'waiting')['reason']) ?? ''));
  return atWork ? 'starting' : 'waiting';
}
