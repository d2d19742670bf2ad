import js from '@eslint/js';
import tseslint from 'typescript-eslint';

// Folders that decide and never do: time, randomness and IO are handed to them. Import directions are in .dependency-cruiser.mjs.
const pure = ['api', 'images', 'placement', 'gangs', 'rewrite'].map((d) => `src/${d}/**/*.ts`);
pure.push('src/preheat/*.ts', 'src/**/decide*.ts');

export default tseslint.config(
  { ignores: ['.out/**', 'node_modules/**', 'dist/**', '**/*.mjs'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      complexity: ['error', 12],
      'max-depth': ['error', 3],
      'max-params': ['error', 4],
      'max-lines': ['error', { max: 500 }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  {
    files: pure,
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'time is passed in' },
        { object: 'Math', property: 'random', message: 'randomness is passed in' },
      ],
      'no-restricted-globals': ['error', 'process', 'setTimeout', 'setInterval', 'setImmediate', 'fetch'],
      'no-restricted-syntax': [
        'error',
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: 'time is passed in' },
      ],
    },
  },
  {
    files: ['test/**/*.ts', 'tools/**/*.ts', 'demo/**/*.ts'],
    rules: { complexity: ['error', 15], '@typescript-eslint/no-unsafe-assignment': 'off', '@typescript-eslint/no-unsafe-member-access': 'off', '@typescript-eslint/no-unsafe-argument': 'off', '@typescript-eslint/no-unsafe-return': 'off', '@typescript-eslint/no-unsafe-call': 'off' },
  },
);
