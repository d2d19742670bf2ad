/** metav1.LabelSelector as it stands on the wire; absent and empty select everything. */
export interface LabelSelector {
  matchLabels?: Record<string, string> | undefined;
  matchExpressions?: Expression[] | undefined;
}

interface Expression {
  key: string;
  operator: string;
  values?: string[] | undefined;
}

const KEY = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const NEEDS_VALUES: Record<string, boolean> = { In: true, NotIn: true, Exists: false, DoesNotExist: false };

/**
 * Why the API server would refuse this selector, or undefined. A CRD's schema lets such selectors in; one that cannot be
 * evaluated must not silently select nothing or everything.
 * Rule: apimachinery pkg/apis/meta/v1/validation, ValidateLabelSelector.
 */
export function selectorProblem(selector: LabelSelector | undefined): string | undefined {
  for (const [key, value] of Object.entries(selector?.matchLabels ?? {})) {
    if (!KEY.test(key)) return `matchLabels: "${key}" is not a label key`;
    if (!VALUE.test(value)) return `matchLabels: "${value}" is not a label value`;
  }
  for (const expression of selector?.matchExpressions ?? []) {
    const problem = expressionProblem(expression);
    if (problem !== undefined) return `matchExpressions: ${problem}`;
  }
  return undefined;
}

function expressionProblem({ key, operator, values = [] }: Expression): string | undefined {
  const needsValues = NEEDS_VALUES[operator];
  if (!KEY.test(key)) return `"${key}" is not a label key`;
  if (needsValues === undefined) return `operator "${operator}" of key "${key}" is none of In, NotIn, Exists, DoesNotExist`;
  if (needsValues && values.length === 0) return `operator ${operator} of key "${key}" needs values`;
  if (!needsValues && values.length > 0) return `operator ${operator} of key "${key}" takes no values`;
  const bad = values.find((v) => !VALUE.test(v));
  return bad === undefined ? undefined : `"${bad}" is not a label value`;
}

/** Whether `labels` satisfy every requirement. A NotIn holds also where the label is absent, as in the API server. */
export function matchesSelector(selector: LabelSelector | undefined, labels: Readonly<Record<string, string>>): boolean {
  return selectorTest(selector)(labels);
}

/** The same for many objects: what follows from the selector alone, which may be large, is worked out once. */
export function selectorTest(selector: LabelSelector | undefined): (labels: Readonly<Record<string, string>>) => boolean {
  const wanted = Object.entries(selector?.matchLabels ?? {});
  const tests = (selector?.matchExpressions ?? []).map((e) => ({ key: e.key, holds: expressionTest(e) }));
  return (labels) => {
    const valueOf = (key: string): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined);
    return wanted.every(([key, value]) => valueOf(key) === value) && tests.every(({ key, holds }) => holds(valueOf(key)));
  };
}

function expressionTest({ operator, values = [] }: Expression): (value: string | undefined) => boolean {
  const listed = new Set(values);
  switch (operator) {
    case 'In':
      return (value) => value !== undefined && listed.has(value);
    case 'NotIn':
      return (value) => value === undefined || !listed.has(value);
    case 'Exists':
      return (value) => value !== undefined;
    default:
      return (value) => operator === 'DoesNotExist' && value === undefined;
  }
}
