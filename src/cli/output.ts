import { stringify } from 'yaml';

/** Text for programs, with a newline at its end. */
export function printed(value: unknown, form: 'json' | 'yaml'): string {
  if (form === 'json') return `${JSON.stringify(value, undefined, 2)}\n`;
  // Lines are not folded and objects that appear twice not aliased: people diff and grep this.
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
