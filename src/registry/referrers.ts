import { LRUCache } from 'lru-cache';
import { list, parseObject } from '../api/json.js';
import type { Json } from '../api/json.js';
import { ACCEPT, MEDIA_TYPE, descriptor } from '../images/manifest.js';
import { format } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import type { Descriptor, ReferrersFact } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Ask, Reply, Session } from './session.js';
import type { HostOptions } from './target.js';
import { verifiedDigest } from './verify.js';

/** How long a registry is not asked for its referrers API again after it showed that it has none. */
const UNSUPPORTED_MS = 5 * 60_000;
const MAX_HOSTS = 1000;
/** Bounds of one list; who can push to a repository decides how long it is. */
const MAX_PAGES = 20;
const MAX_ENTRIES = 2000;
const MAX_BYTES = 8 * 1024 * 1024;
/** Type of a config that holds nothing, which therefore says nothing of the artifact either. */
const EMPTY_TYPE = 'application/vnd.oci.empty.v1+json';

/** What the API said: a list, or why there is none. */
type Listed = Page | { absent: string };

interface Page {
  entries: readonly Descriptor[];
  /** There were more than are read. */
  cut: boolean;
}

/**
 * Reads what refers to a manifest. Registries differ (webhook research 1.4): with the API, with the fallback tag of the specification,
 * with both after an upgrade, and with codes of their own where they have neither. What is found is merged by digest.
 */
export class ReferrersReader {
  readonly #session: Session;
  readonly #unsupported: LRUCache<string, string>;

  constructor(session: Session, clock: Clock) {
    this.#session = session;
    this.#unsupported = new LRUCache({ max: MAX_HOSTS, ttl: UNSUPPORTED_MS, perf: clock, ttlResolution: 0 });
  }

  /** A registry that cannot tell is an answer; one that fails, denies or limits is a RegistryError. */
  async read(reference: Reference, digest: string, options: HostOptions): Promise<ReferrersFact> {
    const host = options.mirror?.host ?? reference.registry;
    const base = { ...options, reference, subject: `referrers of ${digest} in ${format(reference)}` };
    // Both at once: a registry that was upgraded keeps the older ones under the tag only.
    const [api, tag] = await Promise.allSettled([this.#api(host, base, digest), this.#fallbackTag(base, digest)]);
    if (api.status === 'rejected') throw api.reason;
    const answer = api.value;
    const tagged = tag.status === 'fulfilled' ? tag.value : undefined;
    if (!('absent' in answer)) return fromApi(host, digest, merge(answer, tagged));
    if (tag.status === 'rejected') throw tag.reason;
    return fromTag(digest, answer.absent, tagged);
  }

  async #api(host: string, base: Omit<Ask, 'path'>, digest: string): Promise<Listed> {
    const remembered = this.#unsupported.get(host);
    if (remembered !== undefined) return { absent: remembered };
    const accept = MEDIA_TYPE.ociIndex;
    const entries: Descriptor[] = [];
    let bytes = 0;
    let path: string | URL | undefined = `referrers/${digest}`;
    for (let page = 0; path !== undefined; page += 1) {
      if (page >= MAX_PAGES || entries.length >= MAX_ENTRIES || bytes >= MAX_BYTES)
        return { entries: entries.slice(0, MAX_ENTRIES), cut: true };
      const reply: Reply = await this.#session.ask({ ...base, path, accept });
      const found = reply.status === 200 ? entriesOf(reply) : undefined;
      if (found === undefined) return this.#absent(host, reply);
      entries.push(...found);
      bytes += reply.body.length;
      path = nextPage(reply);
    }
    return { entries, cut: false };
  }

  /** Registries say "no such API" in many ways; only those that mean a failure everywhere else are one here. */
  #absent(host: string, reply: Reply): Listed {
    const { status } = reply;
    const failed = status === 401 || status === 403 || status === 429 || (status >= 500 && status !== 501);
    if (failed) throw reply.failure();
    const answered = status === 200 ? 'answers with something else' : `answers ${status}`;
    const absent = `registry ${host} ${answered} where referrers are asked for`;
    // 404 may be about the repository, so it says nothing about others.
    if (status !== 404) this.#unsupported.set(host, absent);
    return { absent };
  }

  /** The tag that clients keep where the registry has no API; undefined if there is none that is an index. */
  async #fallbackTag(base: Omit<Ask, 'path'>, digest: string): Promise<readonly Descriptor[] | undefined> {
    const reply = await this.#session.ask({ ...base, path: `manifests/${fallbackTag(digest)}`, accept: ACCEPT });
    if (reply.status === 404 || reply.status === 400) return undefined;
    if (reply.status !== 200) throw reply.failure();
    // GitLab answers with the subject itself, which may well be an index: of platforms, not of referrers.
    return verifiedDigest(reply, base.reference, undefined) === digest ? undefined : entriesOf(reply)?.slice(0, MAX_ENTRIES);
  }
}

/** `sha256:abc` gives `sha256-abc`. Rule: distribution specification, "Referrers Tag Schema". */
export function fallbackTag(digest: string): string {
  const [algorithm = '', hex = ''] = digest.split(':');
  return `${algorithm.slice(0, 32)}-${hex.slice(0, 64)}`;
}

/** The entries of an index; undefined if the answer is none. Entries without a valid digest are left out, a size of 0 is not one. */
function entriesOf(reply: Reply): Descriptor[] | undefined {
  const body = parseObject(reply.body.toString('utf8'));
  const manifests = list(body?.['manifests']);
  if (body === undefined || manifests === undefined || !isIndex(body)) return undefined;
  return manifests.map(descriptor).filter((entry) => entry !== undefined);
}

function isIndex(body: Json): boolean {
  const { mediaType, layers } = body;
  return layers === undefined && (mediaType === undefined || mediaType === MEDIA_TYPE.ociIndex);
}

/** The next page, on the host that sent this one: a list must not lead Harbinger elsewhere. */
function nextPage({ headers, url }: Reply): URL | undefined {
  const target = /<([^>]{1,4096})>\s*;\s*rel="?next"?/i.exec((headers['link'] ?? '').slice(0, 8192))?.[1];
  if (target === undefined || !URL.canParse(target, url.href)) return undefined;
  const next = new URL(target, url);
  return next.host === url.host && next.protocol === url.protocol && next.pathname.startsWith('/v2/') ? next : undefined;
}

/** By digest. What one list leaves out of an entry the other one may have: some registries put an empty config's type for a type. */
function merge({ entries, cut }: Page, tagged: readonly Descriptor[] = []): Page {
  const found = new Map<string, Descriptor>();
  for (const entry of [...entries, ...tagged]) {
    const known = found.get(entry.digest);
    found.set(entry.digest, known === undefined ? entry : combine(known, entry));
  }
  return { entries: [...found.values()], cut };
}

function combine(first: Descriptor, second: Descriptor): Descriptor {
  const says = [first, second].map(({ artifactType }) => artifactType).find((type) => type !== undefined && type !== EMPTY_TYPE);
  const annotations = { ...second.annotations, ...first.annotations };
  return { ...first, annotations, ...(says === undefined ? {} : { artifactType: says }) };
}

function fromApi(host: string, digest: string, { entries, cut }: Page): ReferrersFact {
  const more = cut ? '; there are more, which were not read' : '';
  return { referrers: entries, how: 'api', detail: `registry ${host} lists ${count(entries)} of ${digest}${more}` };
}

function fromTag(digest: string, absent: string, tagged: readonly Descriptor[] | undefined): ReferrersFact {
  const tag = fallbackTag(digest);
  if (tagged === undefined) return { referrers: [], how: 'unsupported', detail: `${absent}, and there is no tag ${tag}` };
  const { entries } = merge({ entries: tagged, cut: false });
  return { referrers: entries, how: 'fallback-tag', detail: `the tag ${tag} names ${count(entries)}; ${absent}` };
}

function count(entries: readonly Descriptor[]): string {
  return `${entries.length} ${entries.length === 1 ? 'referrer' : 'referrers'}`;
}
