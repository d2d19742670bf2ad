/** WWW-Authenticate as registries write it: several challenges in one header or in several, values quoted or not. */
export interface Challenge {
  /** Lower case. */
  scheme: string;
  /** Names in lower case. */
  parameters: Readonly<Record<string, string>>;
}

// Sticky, so that each character is looked at by one pattern in turn and no header can make them backtrack.
const SCHEME = /([A-Za-z][A-Za-z0-9_-]*)(?=[\s,]|$)/y;
const PARAMETER = /([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))/y;
const SEPARATOR = /[\s,]*/y;
/** Longer headers are cut: no registry needs them. */
const MAX_LENGTH = 4096;

/** Total: what cannot be read is left out. */
export function parseChallenges(headers: readonly string[]): Challenge[] {
  return headers.flatMap((header) => parseHeader(header.slice(0, MAX_LENGTH)));
}

function parseHeader(text: string): Challenge[] {
  const found: { scheme: string; parameters: Record<string, string> }[] = [];
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match !== null) at = pattern.lastIndex;
    return match;
  };
  while (at < text.length) {
    take(SEPARATOR);
    const parameter = take(PARAMETER);
    const scheme = parameter === null ? take(SCHEME) : null;
    if (parameter !== null) {
      const current = found.at(-1);
      if (current !== undefined)
        current.parameters[(parameter[1] ?? '').toLowerCase()] = parameter[2]?.replace(/\\(.)/g, '$1') ?? parameter[3] ?? '';
    } else if (scheme !== null) found.push({ scheme: (scheme[1] ?? '').toLowerCase(), parameters: {} });
    else break;
  }
  return found;
}
