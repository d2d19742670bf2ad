/** metav1.Condition as it stands on the wire. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message: string;
  lastTransitionTime: string;
  observedGeneration?: number | undefined;
}

/** Longest condition message that is written; the API server's own limit is 32,768 characters. */
const MAX_MESSAGE = 1024;

/** Cuts a text that came from elsewhere (a registry, a kubelet) to `max` characters, marking the cut. */
export function clip(text: string, max = MAX_MESSAGE): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}

/**
 * Returns `conditions` with `next` in place; `lastTransitionTime` moves only when `status` changes.
 * Rule: sig-architecture api-conventions, "Typical status properties".
 */
export function setCondition(
  conditions: readonly Condition[],
  next: Omit<Condition, 'lastTransitionTime'>,
  nowIso: string,
): Condition[] {
  const before = conditions.find((c) => c.type === next.type);
  const since = before !== undefined && before.status === next.status ? before.lastTransitionTime : nowIso;
  const after: Condition = { ...next, message: clip(next.message), lastTransitionTime: since };
  return before === undefined ? [...conditions, after] : conditions.map((c) => (c.type === next.type ? after : c));
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((c) => c.type === type);
}

/** True if the condition is there and its status is True; an absent condition is not true. */
export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === 'True';
}
