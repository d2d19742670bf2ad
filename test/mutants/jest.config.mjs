import { fileURLToPath } from 'node:url';
import base from '../../jest.config.mjs';

// The suites as they are, through the transformer that puts a defect in.
export default {
  projects: base.projects.map((project) => ({
    ...project,
    rootDir: fileURLToPath(new URL('../..', import.meta.url)),
    transform: Object.fromEntries(
      Object.entries(project.transform).map(([pattern, [, options]]) => [
        pattern,
        ['<rootDir>/test/mutants/transform.mjs', options],
      ]),
    ),
  })),
};
