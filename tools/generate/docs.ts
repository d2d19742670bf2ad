import { harbingerConfig } from '../../src/config/schema.js';
import { API_VERSION, KINDS } from '../../src/api/kinds/index.js';
import { annotationPages } from './annotations.js';
import { formatsTable } from './formats.js';
import type { Schema } from './structural.js';
import { toStructural } from './structural.js';
import type { Generated } from './yaml.js';

/** Everything below this line of a page is generated; what stands above is written by hand and kept. */
export const MARKER = '<!-- Generated below by `make generate`; the text above is written by hand. -->';

interface Row {
  path: string;
  type: string;
  required: boolean;
  initial: string;
  text: string;
}

/** One row per field, parents before children: `spec.targets[].images[].reference`. */
export function rowsOf(schema: Schema, prefix: string): Row[] {
  const required = new Set((schema['required'] as string[] | undefined) ?? []);
  const fields = Object.entries((schema['properties'] as Record<string, Schema> | undefined) ?? {});
  return fields.flatMap(([name, field]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const row = { path, type: typeOf(field), required: required.has(name), initial: initialOf(field), text: textOf(field) };
    return [row, ...rowsOf(inner(field), field['type'] === 'array' ? `${path}[]` : path)];
  });
}

/** The schema of what a list holds, else the field's own. */
function inner(field: Schema): Schema {
  return field['type'] === 'array' ? (field['items'] as Schema) : field;
}

function typeOf(field: Schema): string {
  const words = field['enum'] as string[] | undefined;
  if (words !== undefined) return words.map((w) => `\`${w}\``).join(', ');
  if (field['type'] === 'array') return `list of ${typeOf(field['items'] as Schema)}`;
  if (typeof field['additionalProperties'] === 'object') return `map to ${typeOf(field['additionalProperties'] as Schema)}`;
  return field['format'] === 'date-time' ? 'time' : `${String(field['type'])}${range(field)}`;
}

function range(field: Schema): string {
  const { minimum, maximum } = field as { minimum?: number; maximum?: number };
  if (minimum === undefined && maximum === undefined) return '';
  return maximum === undefined ? `, at least ${minimum}` : `, ${minimum ?? ''} to ${maximum}`;
}

function initialOf(field: Schema): string {
  return field['default'] === undefined ? '' : `\`${JSON.stringify(field['default']).replaceAll('"', '')}\``;
}

function textOf(field: Schema): string {
  const rules = (field['x-kubernetes-validations'] as { message: string }[] | undefined) ?? [];
  return [(field['description'] as string | undefined) ?? '', ...rules.map((r) => `Checked: ${r.message}.`)].join(' ').trim();
}

function table(rows: readonly Row[]): string {
  const lines = rows.map((r) =>
    `| \`${r.path}\`${r.required ? ' *' : ''} | ${r.type} | ${r.initial} | ${r.text} |`.replaceAll('  ', ' '),
  );
  return ['| field | type | default | meaning |', '|---|---|---|---|', ...lines].join('\n');
}

function kindPage(kind: (typeof KINDS)[number]): string {
  const scope = kind.scope === 'Cluster' ? 'cluster-scoped' : 'namespaced';
  return [
    `\`${API_VERSION}\`, ${scope}, short name \`${kind.shortNames.join('`, `')}\`. Fields with * are required.`,
    `## spec\n\n${table(rowsOf(toStructural(kind.spec), 'spec'))}`,
    `## status\n\n${table(rowsOf(toStructural(kind.status), 'status'))}`,
  ].join('\n\n');
}

/** The page with its generated part replaced; `before` is the file as it stands. */
export function withGenerated(before: string, title: string, generated: string): string {
  const at = before.indexOf(MARKER);
  const byHand = at < 0 ? `# ${title}\n\n` : before.slice(0, at);
  return `${byHand}${MARKER}\n\n${generated}\n`;
}

interface Page {
  title: string;
  path: string;
  body: string;
}

/** Reference pages; `read` gives the text of an existing file, or nothing. */
export function docFiles(read: (path: string) => string): Generated[] {
  const pages: Page[] = KINDS.map((kind) => ({
    title: kind.kind,
    path: `docs/spec/${kind.kind.toLowerCase()}.md`,
    body: kindPage(kind),
  }));
  const config = `Unknown fields are refused.\n\n## Fields\n\n${table(rowsOf(toStructural(harbingerConfig), ''))}`;
  pages.push({ title: 'HarbingerConfig', path: 'docs/spec/config.md', body: config });
  pages.push({ title: 'Image formats', path: 'docs/formats.md', body: formatsTable() });
  pages.push(...annotationPages());
  return pages.map(({ title, path, body }) => ({ path, text: withGenerated(read(path), title, body) }));
}
