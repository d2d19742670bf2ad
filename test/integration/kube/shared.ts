import type { Resource } from '../../../src/kube/resources.js';

export const CONFIG_MAPS: Resource = { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap', namespaced: true };
export const WIDGETS: Resource = {
  group: 'test.harbinger.dev',
  version: 'v1',
  plural: 'widgets',
  kind: 'Widget',
  namespaced: true,
};

/** The proportions of 15/10/2 s in less time. */
export const SHORT_LEASE = { leaseDurationMs: 3_000, renewDeadlineMs: 2_000, retryPeriodMs: 400 };
/** One that nobody waits out in a test, on a busy machine neither. */
export const LONG_LEASE = { ...SHORT_LEASE, leaseDurationMs: 60_000, renewDeadlineMs: 40_000 };
export const LOST_LEASE_EXIT = 7;
