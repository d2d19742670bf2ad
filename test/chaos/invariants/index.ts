export type { BegunBy, Change, History, ImageTruth, Period, PullTruth, Raw, Silence, Violation } from './history.js';
export { uniformGangs } from './uniform.js';
export { provenWarm } from './warm.js';
export { boundedHolds, holdsOf } from './holds.js';
export { boundedGates } from './gates.js';
export { withinBudgets } from './budgets.js';
export { outcomeOf, settled } from './settled.js';
export { noSecrets } from './secrets.js';
export { RELEASE_CAUSES, releasesOf } from './releases.js';
