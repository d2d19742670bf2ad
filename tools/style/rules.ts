export interface SourceFile {
  path: string;
  text: string;
}

const MAX_MEAN_LINES = 200;
/** Share of comment lines of src/ as a whole; 12 to 20 % is the aim, outside of these bounds is an error. */
const COMMENT_SHARE = { min: 0.1, max: 0.22 };

/** Texts that must not be committed. Patterns are put together so that this file does not match them. */
const FORBIDDEN: { in: RegExp; pattern: RegExp; why: string }[] = [
  {
    in: /\.ts$|\.go$/,
    pattern: new RegExp(`\\b(${['TO', 'FIX', 'XX'].map((s, i) => s + ['DO', 'ME', 'X'][i]).join('|')})\\b`),
    why: 'do it or file it',
  },
  {
    in: /\.ts$/,
    pattern: new RegExp(`@ts-${'ignore'}|eslint-${'disable'}(?!.* -- )`),
    why: 'fix the cause, or give a reason after --',
  },
  {
    in: /^package-lock\.json$/,
    pattern: /"resolved"/,
    why: 'the lock file must not name a registry; .npmrc leaves the addresses out',
  },
  { in: /\.(ts|md|yaml|go)$/, pattern: new RegExp(`(^|[\\s"'\`(=])/(${'work'}|${'root'})/`), why: 'a path of one machine' },
];

/** Lines of a TypeScript file that are not blank, and how many of them are comment. */
export function countLines(text: string): { code: number; comment: number } {
  const lines = text.split('\n').map((l) => l.trim());
  const filled = lines.filter((l) => l !== '');
  return { code: filled.length, comment: filled.filter((l) => /^(\/\/|\/\*|\*)/.test(l)).length };
}

/** Breaches of the house rules, one line each, and a line of figures. */
export function problems(files: readonly SourceFile[]): { errors: string[]; summary: string } {
  const errors = files.flatMap(({ path, text }) =>
    FORBIDDEN.filter((rule) => rule.in.test(path)).flatMap((rule) => {
      const line = text.split('\n').findIndex((l) => rule.pattern.test(l));
      return line < 0 ? [] : [`${path}:${line + 1}: ${rule.why}`];
    }),
  );
  const source = files.filter(({ path }) => /^src\/.*\.ts$/.test(path));
  const counts = source.map(({ text }) => countLines(text));
  const code = counts.reduce((sum, c) => sum + c.code, 0);
  const share = code === 0 ? COMMENT_SHARE.min : counts.reduce((sum, c) => sum + c.comment, 0) / code;
  const mean = source.length === 0 ? 0 : code / source.length;
  if (mean > MAX_MEAN_LINES)
    errors.push(`src: ${mean.toFixed(0)} lines a file on average, more than ${MAX_MEAN_LINES}: split files by concern`);
  if (share < COMMENT_SHARE.min || share > COMMENT_SHARE.max) {
    errors.push(`src: ${(share * 100).toFixed(1)} % comment lines; 12 to 20 % says why without retelling`);
  }
  return {
    errors,
    summary: `${source.length} source files, ${mean.toFixed(0)} lines on average, ${(share * 100).toFixed(1)} % comment lines`,
  };
}
