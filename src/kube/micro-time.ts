/** RFC 3339 with six digits, the only form that the API server takes for a MicroTime; JavaScript's own has three. */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace(/(\.\d{3})Z$/, '$1000Z');
}
