import type { ActionType } from '../../../src/controller/actions.js';

/** Actions for which the simulated cluster gives no occasion: its Kueue knows no gates (test/integration/controller/crash.test.ts kills around each action). */
export const UNREACHED: ReadonlySet<ActionType> = new Set<ActionType>(['remove-gate']);
