import type { Requests } from '../api/pod-requests.js';

/** Smaller than any difference between quantities that an API server tells apart, larger than what floats lose in sums. */
const ROUNDING = 1e-6;

/**
 * Requests or allocatable resources in the integers that the scheduler compares: thousandths of a core, else pieces or bytes, rounded
 * up. Rule: kube-scheduler framework.Resource (Quantity.MilliValue and Value).
 */
export function schedulerUnits(quantities: Readonly<Requests>): Requests {
  return Object.fromEntries(Object.entries(quantities).map(([name, value]) => [name, unitsOf(name, value)]));
}

function unitsOf(name: string, value: number): number {
  return Math.ceil((name === 'cpu' ? value * 1000 : value) - ROUNDING);
}
