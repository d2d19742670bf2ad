import { record } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';

/**
 * Fields of objects as server-side apply sees them: maps and structs by key, lists whose schema says so by the key of their items,
 * everything else whole. Rule: structured-merge-diff, `x-kubernetes-list-type` of the CRDs and `listType` of the built-in API.
 */
export type Path = string;

/** Keys of the items of lists that are maps, by the path of the list without its own keys; `''`: a set. */
const LISTS: Readonly<Record<string, string>> = {
  'metadata.ownerReferences': 'uid',
  'metadata.finalizers': '',
  'status.conditions': 'type',
  'spec.targets': 'name',
  'status.targets': 'name',
  'spec.targets.nodes.names': '',
  'status.admissionChecks': 'name',
  'spec.template.spec.containers': 'name',
  'spec.template.spec.initContainers': 'name',
  'spec.template.spec.volumes': 'name',
  'spec.template.spec.imagePullSecrets': 'name',
  'spec.template.spec.containers.volumeMounts': 'mountPath',
  'spec.template.spec.containers.env': 'name',
};

/** Maps that are replaced as a whole. */
const ATOMIC: ReadonlySet<string> = new Set([
  'spec.selector',
  'spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution',
]);

/** What is no field of anybody: it names the object or is the server's own. */
const NAMING: ReadonlySet<string> = new Set(['apiVersion', 'kind']);
const SERVER: ReadonlySet<string> = new Set([
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
]);

export const listKey = (at: Path): string | undefined => LISTS[at];

/** All fields of a value: those that hold something themselves, and the items of lists that are maps. */
export function fieldsOf(object: Raw): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (value: unknown, path: readonly string[], schema: string): void => {
    const map = record(value);
    const key = Array.isArray(value) ? listKey(schema) : undefined;
    if (map !== undefined && !ATOMIC.has(schema) && Object.keys(map).length > 0) {
      for (const [name, inner] of Object.entries(map)) walk(inner, [...path, name], schema === '' ? name : `${schema}.${name}`);
    } else if (key !== undefined) {
      const items = (value as unknown[]).map((item) => [`[${String(key === '' ? item : record(item)?.[key])}]`, item] as const);
      for (const [id] of items) found.set(JSON.stringify([...path, id]), '');
      for (const [id, item] of key === '' ? [] : items) walk(item, [...path, id], schema);
    } else found.set(JSON.stringify(path), JSON.stringify(value));
  };
  const metadata = Object.entries(object.metadata).filter(([field]) => !SERVER.has(field));
  for (const [field, value] of metadata) walk(value, ['metadata', field], `metadata.${field}`);
  const others = Object.entries(object).filter(([name]) => name !== 'metadata' && !NAMING.has(name));
  for (const [name, value] of others) walk(value, [name], name);
  return found;
}

/** `under` with all of `over` in it. Neither is changed. */
export function merge(under: unknown, over: unknown, schema = ''): unknown {
  const [low, high] = [record(under), record(over)];
  if (low !== undefined && high !== undefined && !ATOMIC.has(schema)) {
    const merged: Record<string, unknown> = { ...low };
    for (const [name, value] of Object.entries(high))
      merged[name] = name in low ? merge(low[name], value, schema === '' ? name : `${schema}.${name}`) : value;
    return merged;
  }
  const key = Array.isArray(over) && Array.isArray(under) ? listKey(schema) : undefined;
  if (key === undefined) return over;
  return mergeItems(under as unknown[], over as unknown[], { key, schema });
}

function mergeItems(under: unknown[], over: unknown[], { key, schema }: { key: string; schema: string }): unknown[] {
  const idOf = (item: unknown): unknown => (key === '' ? item : record(item)?.[key]);
  const merged = [...under];
  for (const item of over) {
    const at = merged.findIndex((m) => idOf(m) === idOf(item));
    if (at < 0) merged.push(item);
    else merged[at] = merge(merged[at], item, schema);
  }
  return merged;
}

/** Takes a field out of an object, in place, and what is empty because of that. */
export function removeField(object: Raw, field: string): void {
  const path = JSON.parse(field) as string[];
  drop(object, path, '');
}

function drop(holder: Record<string, unknown>, path: readonly string[], schema: string): void {
  const [name = '', ...rest] = path;
  const inner = schema === '' ? name : `${schema}.${name}`;
  const value = holder[name];
  if (value === undefined) return;
  if (rest.length === 0) {
    delete holder[name];
    return;
  }
  if (Array.isArray(value)) return dropItem(holder, { name, schema: inner }, rest);
  const map = record(value) as Record<string, unknown> | undefined;
  if (map !== undefined) drop(map, rest, inner);
}

function dropItem(
  holder: Record<string, unknown>,
  { name, schema }: { name: string; schema: string },
  [id = '', ...rest]: readonly string[],
): void {
  const items = holder[name] as unknown[];
  const key = listKey(schema) ?? '';
  const at = items.findIndex((item) => `[${String(key === '' ? item : record(item)?.[key])}]` === id);
  if (at < 0) return;
  const item = record(items[at]) as Record<string, unknown> | undefined;
  if (rest.length > 0 && item !== undefined) drop(item, rest, schema);
  else items.splice(at, 1);
}
