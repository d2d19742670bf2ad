/** Label of everything that an installation consists of. */
export const PART_OF = { 'app.kubernetes.io/part-of': 'harbinger' } as const;

/** Labels of one component; the first two also select its Pods and therefore never change. */
export function componentLabels(component: string): Record<string, string> {
  return { ...selectorLabels(component), ...PART_OF };
}

export function selectorLabels(component: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'harbinger', 'app.kubernetes.io/component': component };
}
