import type { Json } from '../api/json.js';
import { list, number, record, records, string } from '../api/json.js';
import type { NodeAssignment } from './shape.js';

type Domain = NodeAssignment['domains'][number];

/** More domains than an ImagePrewarm can name are not read: the compact format can claim a hundred thousand in a few bytes. */
const MAX_DOMAINS = 5_000;
/** Kueue allows as many levels in a Topology. */
const MAX_LEVELS = 16;
/** Longest value of a node label, or name of a node. */
const MAX_VALUE = 253;

/**
 * Nodes that Kueue assigned to a podSet, from `topologyAssignment` of v1beta1 (`domains[]`) or of v1beta2 (`slices[]`, where parts
 * that domains have in common are written once). Undefined where there is none, and where it contradicts itself: nodes that were
 * guessed from half an answer are worse than candidates. At most MAX_DOMAINS domains are given, whatever the object claims.
 */
export function nodeAssignment(raw: unknown): NodeAssignment | undefined {
  const assignment = record(raw);
  const levels = list(assignment?.['levels'])?.map(string);
  if (assignment === undefined || levels === undefined || levels.length === 0 || levels.length > MAX_LEVELS) return undefined;
  if (!levels.every((l) => l !== undefined)) return undefined;
  const domains =
    list(assignment['slices']) === undefined ? listed(assignment, levels.length) : sliced(assignment, levels.length);
  return domains === undefined || domains.length === 0 ? undefined : { levels, domains };
}

function listed(assignment: Json, levels: number): Domain[] | undefined {
  const domains: Domain[] = [];
  for (const raw of records(assignment['domains']).slice(0, MAX_DOMAINS)) {
    const values = list(raw['values']) ?? [];
    const domain = domainOf(values, number(raw['count']));
    if (domain === undefined || values.length !== levels) return undefined;
    domains.push(domain);
  }
  return domains;
}

function sliced(assignment: Json, levels: number): Domain[] | undefined {
  const domains: Domain[] = [];
  for (const slice of records(assignment['slices'])) {
    const count = number(slice['domainCount']) ?? 0;
    const perLevel = records(slice['valuesPerLevel']);
    if (perLevel.length !== levels || count < 1) return undefined;
    for (let i = 0; i < count && domains.length < MAX_DOMAINS; i++) {
      const domain = domainOf(
        perLevel.map((level) => valueAt(level, i)),
        countAt(slice['podCounts'], i),
      );
      if (domain === undefined) return undefined;
      domains.push(domain);
    }
    if (domains.length >= MAX_DOMAINS) break;
  }
  return domains;
}

/** Value of one level in the i-th domain of a slice: the same in all, or a root between a common prefix and suffix. */
function valueAt(level: Json, i: number): string | undefined {
  const universal = string(level['universal']);
  if (universal !== undefined) return universal;
  const individual = record(level['individual']);
  const root = list(individual?.['roots'])?.[i];
  if (typeof root !== 'string') return undefined;
  return `${string(individual?.['prefix']) ?? ''}${root}${string(individual?.['suffix']) ?? ''}`;
}

function countAt(podCounts: unknown, i: number): number | undefined {
  const counts = record(podCounts);
  return number(counts?.['universal']) ?? number(list(counts?.['individual'])?.[i]);
}

function domainOf(values: readonly unknown[], count: number | undefined): Domain | undefined {
  const usable = values.every((v): v is string => typeof v === 'string' && v !== '' && v.length <= MAX_VALUE);
  return usable && count !== undefined && count >= 0 ? { values, count } : undefined;
}
