const [MIN, MAX] = [-(2n ** 63n), 2n ** 63n - 1n];

/** The integer that a text is to Kubernetes, or undefined. Rule: Go strconv.ParseInt with base 10 and 64 bits. */
export function integer(text: string | undefined): bigint | undefined {
  if (text === undefined || text.length > 64 || !/^[+-]?\d+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return value < MIN || value > MAX ? undefined : value;
}
