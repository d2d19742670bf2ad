import { at, string } from '../api/json.js';
import type { Json } from '../api/json.js';

/** The namespace that an object of a file would be created in; as kubectl does, its own one goes first. */
export function namespaceOf(object: Json, fallback = 'default'): string {
  return string(at(object, 'metadata')['namespace']) ?? fallback;
}

/** `Job research/train`, and where in it the Pod template stands. */
export function titleOf(object: Json, path: string, namespace?: string): string {
  const { name, generateName } = at(object, 'metadata');
  const called = string(name) ?? (string(generateName) === undefined ? '(no name)' : `${string(generateName) ?? ''}*`);
  const title = `${string(object['kind']) ?? 'object'} ${namespaceOf(object, namespace)}/${called}`;
  return path === '' ? title : `${title}, ${path}`;
}
