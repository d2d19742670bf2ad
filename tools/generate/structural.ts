import { z } from 'zod';

/** A JSON object of a schema. */
export type Schema = Record<string, unknown>;

// zod states the range of a double for every integer; it says nothing and clutters `kubectl explain`.
const UNBOUNDED = new Set([Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]);

/**
 * Keys of `KubeMeta` (src/api/kinds/common.ts) and what the API server calls them.
 * Source: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", structural schemas.
 */
const EXTENSIONS: Record<string, (value: unknown) => Schema> = {
  listMapKeys: (keys) => ({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys }),
  listSet: () => ({ 'x-kubernetes-list-type': 'set' }),
  cel: (rules) => ({ 'x-kubernetes-validations': rules }),
  preserveUnknown: () => ({ 'x-kubernetes-preserve-unknown-fields': true }),
  intOrString: () => ({ 'x-kubernetes-int-or-string': true }),
};

/** Everything that a structural schema may hold and that our kinds use; anything else is a mistake to be shown, not dropped. */
const KNOWN = new Set([
  ...['type', 'format', 'description', 'properties', 'required', 'items', 'additionalProperties', 'enum', 'default', 'pattern'],
  ...['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties', 'nullable'],
]);

/**
 * The structural schema of a kind's spec or status. zod's OpenAPI output is close to one: references have to be inlined and our
 * own meta keys translated. Throws on anything that the API server would refuse, with the path of the field.
 */
export function toStructural(schema: z.ZodType): Schema {
  return clean(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input', reused: 'inline', unrepresentable: 'throw' }), '');
}

function clean(node: Schema, path: string): Schema {
  const out: Schema = {};
  for (const [key, value] of Object.entries(node)) Object.assign(out, field(key, value, path));
  if (out['x-kubernetes-int-or-string'] === true) delete out['type'];
  // OpenAPI forbids additionalProperties beside properties; the API server prunes unknown fields anyway.
  if (out['properties'] !== undefined) delete out['additionalProperties'];
  if (out['type'] === 'integer') out['format'] = 'int64';
  if (out['type'] === undefined && out['x-kubernetes-int-or-string'] === undefined) {
    throw new Error(`${path || 'top level'}: a structural schema needs one type here; unions do not have one`);
  }
  return out;
}

function field(key: string, value: unknown, path: string): Schema {
  if (key in EXTENSIONS) return EXTENSIONS[key]?.(value) ?? {};
  if ((key === 'minimum' || key === 'maximum') && UNBOUNDED.has(value as number)) return {};
  if (key === 'properties') {
    const fields = Object.entries(value as Record<string, Schema>);
    return { properties: Object.fromEntries(fields.map(([name, inner]) => [name, clean(inner, `${path}.${name}`)])) };
  }
  if (key === 'items') return { items: clean(value as Schema, `${path}[]`) };
  if (key === 'additionalProperties' && typeof value === 'object')
    return { additionalProperties: clean(value as Schema, `${path}{}`) };
  if (!KNOWN.has(key)) throw new Error(`${path || 'top level'}: ${key} has no place in a structural schema`);
  return { [key]: value };
}
