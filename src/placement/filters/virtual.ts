import type { NodeFacts } from '../node-facts.js';

/** Labels of nodes behind which there is a service and no machine: it runs each Pod by itself and no DaemonSet. */
const VIRTUAL: readonly (readonly [string, string])[] = [
  ['type', 'virtual-kubelet'],
  ['eks.amazonaws.com/compute-type', 'fargate'],
];

/** Nodes that never run a puller: those that are no machines, and those whose system is not that of the puller program. */
export function unreachable({ labels, os }: NodeFacts): string | undefined {
  const sign = VIRTUAL.find(([key, value]) => labels[key] === value);
  if (sign !== undefined) return `it is a virtual node (${sign.join('=')})`;
  return os === 'linux' ? undefined : `it runs ${os}, and pullers run on linux only`;
}
