import type { ObjectName } from './port.js';
import type { Resource } from './resources.js';

/** `/apis/apps/v1/namespaces/ns/daemonsets`; all namespaces when none is given. */
export function collectionPath(resource: Resource, namespace?: string): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = resource.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${root}${scope}/${resource.plural}`;
}

/** Path of one object. An empty name would address the whole collection, and a delete of that is beyond repair. */
export function objectPath(resource: Resource, { namespace, name }: ObjectName, subresource?: string): string {
  if (name === '') throw new TypeError(`a ${resource.kind} was addressed without a name`);
  if (resource.namespaced && !namespace) throw new TypeError(`${resource.kind} ${name} was addressed without its namespace`);
  const sub = subresource === undefined ? '' : `/${subresource}`;
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}${sub}`;
}

/** Query string of the parameters that have a value, with its `?`. */
export function queryString(parameters: Record<string, string | number | boolean | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '') query.set(name, String(value));
  return query.size === 0 ? '' : `?${query.toString()}`;
}

/** As people write it: `daemonsets.apps`. */
export function resourceName(resource: Resource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}
