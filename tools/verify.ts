import { spawnSync } from 'node:child_process';

const TOOL = ['node', 'tools/run.mjs'];
const bin = (name: string): string => `node_modules/.bin/${name}`;

/** Read-only checks; `npx` is left out because it would ask a registry for what is not installed. */
const LINT = [
  { name: 'eslint', command: [bin('eslint'), '--cache', '--cache-location', '.out/eslint', '.'] },
  {
    name: 'prettier',
    command: [
      bin('prettier'),
      '--check',
      '--log-level',
      'warn',
      '--cache',
      '--cache-location',
      '.out/prettier',
      '{src,test,tools,demo}/**/*.ts',
    ],
  },
  {
    name: 'import directions',
    command: [bin('depcruise'), '--config', '.dependency-cruiser.mjs', '--output-type', 'err', 'src', 'tools'],
  },
  { name: 'style', command: [...TOOL, 'tools/style.ts'] },
];
const TYPES = [{ name: 'types', command: [bin('tsc'), '-p', '.'] }];
const UNIT = [{ name: 'unit tests', command: [...TOOL, 'tools/test.ts', 'unit'] }];
/** Last, so that a file that someone edits meanwhile is seen. */
const GENERATED = [{ name: 'generated files', command: [...TOOL, 'tools/generate.ts', '--check'] }];

type Step = (typeof LINT)[number];
const STEPS: Record<string, Step[]> = {
  lint: LINT,
  types: TYPES,
  all: [...GENERATED, ...LINT, ...TYPES, ...UNIT],
};

/** Runs every step even after one failed: whoever fixes things wants the whole list. */
function main(what: string): number {
  const steps = STEPS[what];
  if (steps === undefined) throw new Error(`no steps ${what}; there are ${Object.keys(STEPS).join(', ')}`);
  const failed = steps.filter(({ name, command: [program = '', ...args] }) => {
    const began = Date.now();
    console.log(`== ${name}`);
    const { status } = spawnSync(program, args, { stdio: 'inherit' });
    console.log(`   ${name}: ${status === 0 ? 'ok' : 'FAILED'} in ${((Date.now() - began) / 1000).toFixed(1)} s`);
    return status !== 0;
  });
  console.log(failed.length === 0 ? `\n${what}: ok` : `\n${what}: failed: ${failed.map((s) => s.name).join(', ')}`);
  return failed.length === 0 ? 0 : 1;
}

process.exitCode = main(process.argv[2] ?? 'all');
