import { createHash } from 'node:crypto';
import type { Json } from '../../../api/json.js';
import { at, record } from '../../../api/json.js';

/** What the API server writes into a template that does not say so. One that it adds some day costs one needless edit a set and start. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  creationTimestamp: null,
  dnsPolicy: 'ClusterFirst',
  restartPolicy: 'Always',
  schedulerName: 'default-scheduler',
  successThreshold: 1,
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
};
/** Nodes are compared one by one, and `serviceAccount` is an old name of `serviceAccountName`. */
const LEFT_OUT: ReadonlySet<string> = new Set(['nodeSelectorTerms', 'serviceAccount']);

/**
 * All that a template of Pods says apart from its nodes, as one short text: equal for what we send and for what the API server keeps
 * of it, and different once anybody has changed, added or taken away anything.
 */
export function templatePrint(template: unknown): string {
  const { labels, annotations } = at(template, 'metadata');
  const said = normal({ labels, annotations, spec: at(template, 'spec') });
  return createHash('sha256').update(JSON.stringify(said)).digest('hex').slice(0, 16);
}

function normal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normal);
  const object = record(value);
  return object === undefined ? value : Object.fromEntries(fieldsOf(object));
}

function fieldsOf(object: Json): [string, unknown][] {
  return Object.entries(object)
    .filter(([key, value]) => value !== undefined && !LEFT_OUT.has(key) && !(key in DEFAULTS && DEFAULTS[key] === value))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => [key, normal(value)]);
}
