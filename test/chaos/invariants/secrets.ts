import type { History, Violation } from './history.js';
import { nameOf } from './history.js';

/**
 * P6, as far as texts show it: no secret of a tenant stands in the log or in an object that Harbinger writes.
 * @param secrets values that only Secret objects may hold
 */
export function noSecrets(history: History, log: readonly string[], secrets: readonly string[]): Violation[] {
  const leaked = (text: string): string | undefined => secrets.find((s) => text.includes(s));
  const objects = history.filter(({ object }) => object.kind !== 'Secret' && leaked(JSON.stringify(object)) !== undefined);
  const lines = log.filter((line) => leaked(line) !== undefined);
  return [
    ...objects.map(({ at, object }) => ({ promise: 'P6' as const, at, object: nameOf(object), message: 'holds a secret' })),
    ...lines.map((line) => ({
      promise: 'P6' as const,
      at: 0,
      object: 'log',
      message: `a line holds a secret (${line.length} characters)`,
    })),
  ];
}
