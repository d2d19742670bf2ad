import { IMAGE_FORMATS } from '../../src/images/formats/index.js';
import type { ImageFormat } from '../../src/images/formats/format.js';

/** The generated part of docs/formats.md: one row per format, from the table by which the ladder works. */
export function formatsTable(): string {
  const head = [
    'format',
    'also called',
    'usual discovery',
    'shown by',
    'proof of the source',
    'config compared under `Probable`',
    'runs on nodes that do not know it',
  ];
  const rows = IMAGE_FORMATS.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(rowOf);
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return ['## Table of formats', '', line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function rowOf({ name, traits, docs }: ImageFormat): string[] {
  const compared =
    traits === undefined ? 'no' : traits.extraLayers === 0 ? 'yes' : `yes, ${traits.extraLayers} layer more is allowed`;
  const found = docs.found.map((form) => `\`${form}\``).join(', ');
  return [`\`${name}\``, docs.title, found, docs.shownBy, docs.record, compared, docs.portable];
}
