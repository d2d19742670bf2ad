import { jest } from '@jest/globals';

/** What hooks and tests have that name no time of their own, ms: jest's 5 s are less than a busy machine stalls for at times. */
jest.setTimeout(60_000);
