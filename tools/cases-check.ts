import { checkCases } from './testing/check-cases.js';
import { REQUIRED_CASES } from './testing/required-cases.js';
import { revisionOf } from './testing/revision.js';

const revision = await revisionOf('.');
const problems = await checkCases('.out/test', revision);
for (const problem of problems) console.error(`cases: ${problem}`);
if (problems.length === 0) console.log(`cases: all ${REQUIRED_CASES.length} are proven by a test that passed, at ${revision}`);
process.exitCode = problems.length === 0 ? 0 : 1;
