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

export default {
  projects: [
    suite('unit', { setupFiles: ['<rootDir>/test/unit/random.mjs'] }),
    suite('integration'),
    suite('nodes'),
    suite('formats'),
    suite('retain'),
    suite('chaos-sim', { testMatch: ['<rootDir>/test/chaos/sim/**/*.test.ts'] }),
    suite('chaos-real', { testMatch: ['<rootDir>/test/chaos/real/**/*.test.ts'] }),
  ],
};
