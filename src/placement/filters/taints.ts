import { integer } from '../integer.js';
import type { NodeFacts, Taint } from '../node-facts.js';

export interface TolerationLike {
  key?: string | undefined;
  operator?: string | undefined;
  value?: string | undefined;
  effect?: string | undefined;
}

/**
 * Set by the node controller for states that are judged from the conditions; pods tolerate them for a while. What is warmed may be
 * too little for a moment; proofs of images ask for more, `nodes.lastingTaints`.
 */
const TRANSIENT = new Set(['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable', 'node.kubernetes.io/unschedulable']);

/** Rule: component-helpers corev1 Toleration.ToleratesTaint; Lt and Gt compare integers (KEP-5471). */
export function tolerates(toleration: TolerationLike, taint: Taint): boolean {
  const matches = (wanted: string | undefined, actual: string): boolean =>
    wanted === undefined || wanted === '' || wanted === actual;
  return matches(toleration.effect, taint.effect) && matches(toleration.key, taint.key) && valueTolerated(toleration, taint);
}

function valueTolerated({ key = '', operator = 'Equal', value = '' }: TolerationLike, taint: Taint): boolean {
  switch (operator) {
    case 'Exists':
      return true;
    case '':
    case 'Equal':
      return key !== '' && value === taint.value;
    case 'Lt':
      return integers(taint.value, value, (t, v) => t < v);
    case 'Gt':
      return integers(taint.value, value, (t, v) => t > v);
    default:
      return false;
  }
}

function integers(taint: string, toleration: string, compare: (taint: bigint, toleration: bigint) => boolean): boolean {
  const [a, b] = [integer(taint), integer(toleration)];
  return a !== undefined && b !== undefined && compare(a, b);
}

/**
 * The first taint that keeps Pods of the target away; PreferNoSchedule never does.
 * @param tolerations absent where nodes were named: whoever did that has decided
 */
export function tolerated(node: NodeFacts, tolerations: readonly TolerationLike[] | undefined): string | undefined {
  if (tolerations === undefined) return undefined;
  const hard = node.taints.filter((t) => (t.effect === 'NoSchedule' || t.effect === 'NoExecute') && !TRANSIENT.has(t.key));
  const taint = hard.find((t) => !tolerations.some((toleration) => tolerates(toleration, t)));
  return taint === undefined ? undefined : `its taint ${taint.key}:${taint.effect} is not tolerated`;
}
