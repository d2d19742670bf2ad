// Suites are folders; `make unit`, `make integration` and so on pick one with --selectProjects.
const suite = (name, extra = {}) => ({
  displayName: name,
  rootDir: '.',
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2023', parser: { syntax: 'typescript' } }, module: { type: 'es6' }, sourceMaps: 'inline' },
    ],
  },
  ...extra,
});

// For hooks and tests on real processes that name no time of their own: jest's 5 s are less than a busy machine stalls for at times.
const patient = { setupFilesAfterEnv: ['<rootDir>/test/cluster/patience.mjs'] };

export default {
  projects: [
    suite('unit', { setupFiles: ['<rootDir>/test/unit/random.mjs'] }),
    suite('integration', patient),
    suite('nodes', patient),
    suite('formats', patient),
    suite('retain', patient),
    suite('chaos-sim', { testMatch: ['<rootDir>/test/chaos/sim/**/*.test.ts'] }),
    suite('chaos-real', { ...patient, testMatch: ['<rootDir>/test/chaos/real/**/*.test.ts'] }),
  ],
};
