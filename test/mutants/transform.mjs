// The transformer of all suites, with one line of one file replaced while it is loaded: nothing is copied, and nothing on disk changes.
import swc from '@swc/jest';

const { MUTANT_FILE = '', MUTANT_LINE = '', MUTANT_REPLACEMENT = '' } = process.env;

function mutated(source, file) {
  if (MUTANT_FILE === '' || !file.endsWith(`/${MUTANT_FILE}`)) return source;
  const parts = source.split(MUTANT_LINE);
  if (parts.length !== 2) throw new Error(`the line of the mutant stands ${parts.length - 1} times in ${MUTANT_FILE}`);
  return parts.join(MUTANT_REPLACEMENT);
}

export default {
  createTransformer(options) {
    const inner = swc.createTransformer(options);
    return {
      ...inner,
      process: (source, file, rest) => inner.process(mutated(source, file), file, rest),
      processAsync: (source, file, rest) => inner.processAsync(mutated(source, file), file, rest),
      // The key has to know the defect, or a cached good version would be run.
      getCacheKey: (source, file, rest) => inner.getCacheKey(mutated(source, file), file, rest),
    };
  },
};
