/** Reading JSON of foreign origin without trusting its shape: each helper gives undefined instead of a wrong type. */

export type Json = Readonly<Record<string, unknown>>;

/** The object that a text holds; undefined if it is not JSON or not an object. */
export function parseObject(text: string): Json | undefined {
  try {
    return record(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export function record(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

export function list(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) ? (value as unknown[]) : undefined;
}

/** A text that says something; the empty one counts as absent, as Go writes absent fields that way. */
export function string(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The entries of an object whose values are texts; the very object where all are. */
export function stringMap(value: unknown): Readonly<Record<string, string>> {
  const whole = record(value);
  if (whole !== undefined && Object.values(whole).every((v) => typeof v === 'string')) return whole as Record<string, string>;
  const entries = Object.entries(record(value) ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return Object.fromEntries(entries);
}

/** The entries of a list that are objects. */
export function records(value: unknown): Json[] {
  return (list(value) ?? []).map(record).filter((r) => r !== undefined);
}

/** The object at the end of a path of keys; empty where the path breaks off, so that reading on is safe. */
export function at(value: unknown, ...path: string[]): Json {
  return record(path.reduce<unknown>((inner, key) => record(inner)?.[key], value)) ?? {};
}

export function number(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Epoch milliseconds of an RFC 3339 time. */
export function time(value: unknown): number | undefined {
  const parsed = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}

/** Drops absent fields: with exactOptionalPropertyTypes an absent field and an undefined one are different things. */
export function present<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
