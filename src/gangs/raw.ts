/** Readers of raw JSON that came from outside: total, so that a malformed object becomes an absent value and never a crash. */
export type Raw = Record<string, unknown>;

export function record(value: unknown): Raw | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Raw) : undefined;
}

export function records(value: unknown): Raw[] {
  return Array.isArray(value) ? value.map(record).filter((r) => r !== undefined) : [];
}

export function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** String-to-string map; entries of another type are left out. */
export function textMap(value: unknown): Record<string, string> {
  const entries = Object.entries(record(value) ?? {}).filter((e): e is [string, string] => typeof e[1] === 'string');
  return Object.fromEntries(entries);
}

/** Epoch milliseconds of an RFC 3339 time, undefined if it is not one. */
export function time(value: unknown): number | undefined {
  const parsed = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
