import { list, parseObject } from '../api/json.js';
import type { Json } from '../api/json.js';
import { MEDIA_TYPE, descriptor } from './manifest.js';
import type { Descriptor, ReferrersFact } from './registry-port.js';

/**
 * What the answers about referrers mean. Registries differ (webhook research 1.4): with the API, with the fallback tag of the
 * specification, with both after an upgrade, and with codes of their own where they have neither.
 */

/** Type of a config that holds nothing, which therefore says nothing of the artifact either. */
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json';

/** What the API listed. */
export interface ListedReferrers {
  entries: readonly Descriptor[];
  /** There were more than are read. */
  cut: boolean;
}

/** What the API said: a list, or why there is none. */
export type ApiAnswer = ListedReferrers | { absent: string };

/** `sha256:abc` gives `sha256-abc`. Rule: distribution specification, "Referrers Tag Schema". */
export function fallbackTag(digest: string): string {
  const [algorithm = '', hex = ''] = digest.split(':');
  return `${algorithm.slice(0, 32)}-${hex.slice(0, 64)}`;
}

/** The entries of an index; undefined if the text is none. Entries without a valid digest are left out, a size of 0 is not one. */
export function referrerEntries(text: string): Descriptor[] | undefined {
  const body = parseObject(text);
  const manifests = list(body?.['manifests']);
  if (body === undefined || manifests === undefined || !isIndex(body)) return undefined;
  return manifests.map(descriptor).filter((entry) => entry !== undefined);
}

function isIndex(body: Json): boolean {
  const { mediaType, layers } = body;
  return layers === undefined && (mediaType === undefined || mediaType === MEDIA_TYPE.ociIndex);
}

/** Whether a status of the API is a failure: registries say "no such API" in many ways, and these mean a failure everywhere else. */
export function isReferrersFailure(status: number): boolean {
  return status === 401 || status === 403 || status === 429 || (status >= 500 && status !== 501);
}

/** Why a registry has no list, from a status that is no failure. */
export function referrersAbsent(host: string, status: number): string {
  const answered = status === 200 ? 'answers with something else' : `answers ${status}`;
  return `registry ${host} ${answered} where referrers are asked for`;
}

/**
 * What refers to `digest`: the list of the API and that of the fallback tag, merged by digest.
 * @param tagged entries of the fallback tag; undefined where there is none
 */
export function referrersFact(
  host: string,
  digest: string,
  api: ApiAnswer,
  tagged: readonly Descriptor[] | undefined,
): ReferrersFact {
  if (!('absent' in api)) {
    const entries = merge([...api.entries, ...(tagged ?? [])]);
    const more = api.cut ? '; there are more, which were not read' : '';
    return { referrers: entries, how: 'api', detail: `registry ${host} lists ${count(entries)} of ${digest}${more}` };
  }
  const tag = fallbackTag(digest);
  if (tagged === undefined) return { referrers: [], how: 'unsupported', detail: `${api.absent}, and there is no tag ${tag}` };
  const entries = merge(tagged);
  return { referrers: entries, how: 'fallback-tag', detail: `the tag ${tag} names ${count(entries)}; ${api.absent}` };
}

function merge(all: readonly Descriptor[]): Descriptor[] {
  const found = new Map<string, Descriptor>();
  for (const entry of all) {
    const known = found.get(entry.digest);
    found.set(entry.digest, known === undefined ? entry : combine(known, entry));
  }
  return [...found.values()];
}

/** What one list leaves out of an entry the other one may have: some registries put an empty config's type for a type. */
function combine(first: Descriptor, second: Descriptor): Descriptor {
  const says = [first, second].map(({ artifactType }) => artifactType).find((type) => type !== undefined && type !== EMPTY_TYPE);
  const annotations = { ...second.annotations, ...first.annotations };
  return { ...first, annotations, ...(says === undefined ? {} : { artifactType: says }) };
}

function count(entries: readonly Descriptor[]): string {
  return `${entries.length} ${entries.length === 1 ? 'referrer' : 'referrers'}`;
}
