import { at, record } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { refusal } from './errors.js';

/** Fields by which each kind may be selected; others are refused, as the real server does. */
const SELECTABLE: Readonly<Record<string, readonly string[]>> = {
  Pod: ['spec.nodeName', 'status.phase'],
  Event: ['regarding.kind', 'regarding.name'],
  Workload: ['status.admission.clusterQueue'],
};

/** Whether an object is selected; throws 400 for a field that its kind cannot be selected by. */
export function selects(kind: string, selector: { labelSelector?: string; fieldSelector?: string }): (object: Raw) => boolean {
  const labels = (selector.labelSelector ?? '').split(',').filter(Boolean).map(labelTerm);
  const fields = (selector.fieldSelector ?? '')
    .split(',')
    .filter(Boolean)
    .map((term) => fieldTerm(kind, term));
  return (object) => labels.every((holds) => holds(object)) && fields.every((holds) => holds(object));
}

type Term = (object: Raw) => boolean;

function labelTerm(term: string): Term {
  const [, not = '', key = ''] = /^(!?)(.+)$/.exec(term) ?? [];
  const equal = /^([^=!]+)(!?=)=?(.*)$/.exec(term);
  if (equal === null) return ({ metadata }) => (metadata.labels?.[key] !== undefined) === (not === '');
  const [, name = '', operator, value = ''] = equal;
  return ({ metadata }) => (metadata.labels?.[name] === value) === (operator === '=');
}

function fieldTerm(kind: string, term: string): Term {
  const [, field = '', operator = '=', value = ''] = /^([^=!]+)(!?=)=?(.*)$/.exec(term) ?? [];
  const known = ['metadata.name', 'metadata.namespace', ...(SELECTABLE[kind] ?? [])];
  if (!known.includes(field)) throw refusal.badRequest(`field label not supported: ${field}`);
  return (object) => (valueAt(object, field) === value) === (operator === '=');
}

function valueAt(object: Raw, field: string): string {
  const path = field.split('.');
  const last = path.pop() ?? '';
  const value = at(object, ...path)[last];
  return typeof value === 'string' ? value : record(value) === undefined ? '' : 'object';
}
