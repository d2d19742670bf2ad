const FACTORS: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};
const QUANTITY = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$/;

/** A Kubernetes quantity ("500m", "30Gi", "1e3", or a JSON number) in base units (cores, bytes, pieces); undefined if it is not one. */
export function parseQuantity(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const match = typeof value === 'string' ? QUANTITY.exec(value) : null;
  return match === null ? undefined : Number(match[1]) * (FACTORS[match[2] ?? ''] ?? 1);
}

/** Bytes for people: 629 MB, 38.2 GB (decimal, as registries and links are measured). */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = Math.max(0, bytes);
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit] ?? ''}`;
}
