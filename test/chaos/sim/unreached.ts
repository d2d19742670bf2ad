import type { ActionType } from '../../../src/controller/actions.js';

/** Actions for which the simulated cluster gives no occasion, each with the test that crashes the controller around it. */
export const UNREACHED: ReadonlySet<ActionType> = new Set<ActionType>([]);
