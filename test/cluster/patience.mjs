import { jest } from '@jest/globals';

/** What hooks and tests have that name no time of their own, ms: more than ending a cluster takes that does not want to end. */
jest.setTimeout(180_000);
