import type { Raw } from '../../cluster/client.js';

export interface ContainerSpec {
  name: string;
  image: string;
  imagePullPolicy?: string;
  command?: string[];
  args?: string[];
  restartPolicy?: string;
  startupProbe?: unknown;
  readinessProbe?: { initialDelaySeconds?: number };
  volumeMounts?: { name: string }[];
}

export interface ContainerState {
  waiting?: { reason: string; message?: string };
  running?: { startedAt: string };
  terminated?: { exitCode: number; reason: string; startedAt: string; finishedAt: string; containerID: string };
}

export interface ContainerStatus {
  name: string;
  image: string;
  imageID: string;
  ready: boolean;
  started: boolean;
  restartCount: number;
  state: ContainerState;
  lastState: ContainerState;
  containerID?: string;
}

/** Time as the API writes it: whole seconds. */
export function timestamp(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, 'Z');
}

export function waiting(spec: ContainerSpec, reason: string): ContainerStatus {
  return {
    name: spec.name,
    image: spec.image,
    imageID: '',
    ready: false,
    started: false,
    restartCount: 0,
    state: { waiting: { reason } },
    lastState: {},
  };
}

/** Phase by the rules of the kubelet: what may still run or restart keeps the Pod from an end. */
export function phaseOf(
  restartPolicy: string,
  inits: readonly ContainerStatus[],
  containers: readonly ContainerStatus[],
): string {
  const failed = (status: ContainerStatus): boolean => (status.state.terminated?.exitCode ?? 0) !== 0;
  if (inits.some(failed) && restartPolicy === 'Never') return 'Failed';
  if (containers.length === 0 || containers.some((status) => status.state.waiting && !status.lastState.terminated))
    return 'Pending';
  const ended = containers.every((status) => status.state.terminated);
  if (!ended || restartPolicy === 'Always') return 'Running';
  if (!containers.some(failed)) return 'Succeeded';
  return restartPolicy === 'Never' ? 'Failed' : 'Running';
}

interface Condition {
  type: string;
  status: string;
  lastTransitionTime: string;
  reason?: string;
  message?: string;
}

/** The Pod's conditions with the kubelet's own renewed; those of others (PodScheduled) stay. A transition time changes only with the status. */
export function conditionsOf(
  pod: Raw,
  facts: { sandbox: boolean; initialized: boolean; ready: boolean; completed: boolean },
): Condition[] {
  const before: Condition[] = pod['status']?.conditions ?? [];
  const reason = facts.completed ? 'PodCompleted' : 'ContainersNotReady';
  const own: [string, boolean, string?][] = [
    ['PodReadyToStartContainers', facts.sandbox],
    ['Initialized', facts.initialized, 'ContainersNotInitialized'],
    ['Ready', facts.ready, reason],
    ['ContainersReady', facts.ready, reason],
  ];
  const renewed = own.map(([type, holds, why]): Condition => {
    const status = holds ? 'True' : 'False';
    const old = before.find((condition) => condition.type === type);
    const lastTransitionTime = old?.status === status ? old.lastTransitionTime : timestamp();
    return { type, status, lastTransitionTime, ...(!holds && why && { reason: why }) };
  });
  return [...renewed, ...before.filter(({ type }) => !own.some(([name]) => name === type))];
}
