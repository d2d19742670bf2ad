import { jest } from '@jest/globals';

/** What hooks and tests have that name no time of their own, ms. */
jest.setTimeout(60_000);
