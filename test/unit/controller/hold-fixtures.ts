import type { CheckSnapshot, Warmth } from '../../../src/controller/holds/decide.js';
import type { HoldView } from '../../../src/gangs/hold.js';
import { T0 } from './fixtures.js';

export const MINUTE = 60_000;

export const view = (state: string, change: Partial<HoldView> = {}): HoldView => ({
  admitted: false,
  evicted: false,
  finished: false,
  active: true,
  checks: [{ name: 'images', state, message: 'before' }],
  ...change,
});
export const warm: Warmth = {
  ready: true,
  current: true,
  desired: 3,
  warm: 3,
  message: 'the images are on all 3 nodes',
  reason: 'AllNodesWarm',
};
export const cold: Warmth = {
  ready: false,
  current: true,
  desired: 3,
  warm: 2,
  message: '',
  reason: 'PullingImages',
  eta: T0 + 40_000,
};
export const hopeless: Warmth = { ...cold, reason: 'ImageNotFound', message: 'no such image', hopeless: 'no such image' };

export const finished: Warmth = { ...cold, reason: 'Finished', message: 'the gang has its images; they are no longer held' };

export const snapshot = (change: Partial<CheckSnapshot> & { holdMs?: number } = {}): CheckSnapshot => {
  const { holdMs, ...rest } = change;
  return {
    view: view('Pending'),
    delayedTopology: false,
    optIn: { optedIn: true, problems: [], ...(holdMs === undefined ? {} : { holdMs }) },
    hasImages: true,
    warmth: cold,
    checks: new Map([['images', { defaultHoldMs: 0, minWarmPercent: 100 }]]),
    mode: 'On',
    ...rest,
  };
};
export const RESERVED = { reservedAt: T0 };
