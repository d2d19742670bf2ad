import { checkCases } from './testing/check-cases.js';
import { REQUIRED_CASES } from './testing/required-cases.js';

const problems = await checkCases('.out/test');
for (const problem of problems) console.error(`cases: ${problem}`);
if (problems.length === 0) console.log(`cases: all ${REQUIRED_CASES.length} are proven by a test that passed`);
process.exitCode = problems.length === 0 ? 0 : 1;
