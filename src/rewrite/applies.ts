import { list, record } from '../api/json.js';
import type { PatchOp } from './patch.js';

/**
 * Why a patch might not apply to an object, or undefined where each of its operations is proven to. One that does not apply makes
 * the API server refuse the whole request, which `failurePolicy: Ignore` does not cover. Looks at the object as it stands: an
 * operation that needs an earlier one counts as unproven. Rule: RFC 6902 section 4.
 */
export function patchProblem(object: unknown, ops: readonly PatchOp[]): string | undefined {
  const paths = new Set<string>();
  for (const { op, path } of ops) {
    const keys = keysOf(path);
    const last = keys?.pop();
    if (keys === undefined || last === undefined) return `${path} is no pointer into an object`;
    if (paths.has(path)) return `${path} is written twice`;
    paths.add(path);
    const parent = keys.reduce<unknown>(child, object);
    // Only fields are ever added: into a list, an index may be off its end.
    if (op === 'add' ? record(parent) === undefined : child(parent, last) === undefined) return `${op} ${path}: nothing is there`;
  }
  return undefined;
}

/** What may be sent for an object: all operations where each is proven to apply, else none, and why. */
export function provenPatch(object: unknown, ops: PatchOp[]): { ops: PatchOp[]; problem?: string } {
  const problem = patchProblem(object, ops);
  return problem === undefined ? { ops } : { ops: [], problem };
}

/** The parts of a JSON pointer; undefined where it is none. */
function keysOf(pointer: string): string[] | undefined {
  if (!pointer.startsWith('/')) return undefined;
  return pointer
    .slice(1)
    .split('/')
    .map((part) => (part.includes('~') ? part.replaceAll('~1', '/').replaceAll('~0', '~') : part));
}

function child(parent: unknown, key: string): unknown {
  const items = list(parent);
  if (items !== undefined) return /^(0|[1-9]\d*)$/.test(key) ? items[Number(key)] : undefined;
  const fields = record(parent);
  return fields !== undefined && Object.hasOwn(fields, key) ? fields[key] : undefined;
}
