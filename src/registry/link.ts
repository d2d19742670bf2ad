/** Longest header that is read, characters; longer ones lead nowhere. */
const MAX_LENGTH = 8192;

/**
 * The target of the first `rel=next` in Link headers (RFC 8288), which may hold several links with parameters in any order; undefined if
 * there is none. Linear in the length: the header is whatever a registry sends.
 */
export function nextLink(headers: readonly string[]): string | undefined {
  for (const header of headers) {
    const target = nextIn(header.slice(0, MAX_LENGTH));
    if (target !== undefined) return target;
  }
  return undefined;
}

function nextIn(text: string): string | undefined {
  for (let at = text.indexOf('<'); at >= 0;) {
    const close = text.indexOf('>', at);
    if (close < 0) return undefined;
    const end = endOfLink(text, close + 1);
    if (relations(text.slice(close + 1, end)).includes('next')) return text.slice(at + 1, close);
    at = text.indexOf('<', end);
  }
  return undefined;
}

/** Where the parameters of a link end: at the next comma that is not quoted. */
function endOfLink(text: string, from: number): number {
  const end = indexOutsideQuotes(text, ',', from);
  return end < 0 ? text.length : end;
}

/** What the first `rel` says, in lower case; later ones do not count. */
function relations(parameters: string): string[] {
  for (let at = indexOutsideQuotes(parameters, ';', 0); at >= 0;) {
    const next = indexOutsideQuotes(parameters, ';', at + 1);
    const [name = '', ...value] = parameters.slice(at + 1, next < 0 ? undefined : next).split('=');
    if (name.trim().toLowerCase() === 'rel') return unquote(value.join('=').trim()).toLowerCase().split(/\s/);
    at = next;
  }
  return [];
}

function indexOutsideQuotes(text: string, wanted: string, from: number): number {
  let quoted = false;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (quoted && char === '\\') at += 1;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && char === wanted) return at;
  }
  return -1;
}

function unquote(text: string): string {
  return text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}
