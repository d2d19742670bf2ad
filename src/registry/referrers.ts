import { LRUCache } from 'lru-cache';
import { ACCEPT, MEDIA_TYPE } from '../images/manifest.js';
import { format } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { fallbackTag, isReferrersFailure, referrerEntries, referrersAbsent, referrersFact } from '../images/referrers.js';
import type { ApiAnswer } from '../images/referrers.js';
import type { Descriptor, ReferrersFact } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import { nextLink } from './link.js';
import type { Ask, Reply, Session } from './session.js';
import { partOf } from './target.js';
import type { HostOptions } from './target.js';
import { verifiedDigest } from './verify.js';

/** How long a project of a registry is not asked for referrers again after it showed that it has no API. */
const UNSUPPORTED_MS = 5 * 60_000;
const MAX_REMEMBERED = 1000;
/** Bounds of one list; who can push to a repository decides how long it is. */
const MAX_PAGES = 20;
const MAX_ENTRIES = 2000;
const MAX_BYTES = 8 * 1024 * 1024;
/**
 * Reads what refers to a manifest. Registries differ (webhook research 1.4): with the API, with the fallback tag of the specification,
 * with both after an upgrade, and with codes of their own where they have neither. What is found is merged by digest.
 */
export class ReferrersReader {
  readonly #session: Session;
  readonly #unsupported: LRUCache<string, string>;

  constructor(session: Session, clock: Clock) {
    this.#session = session;
    this.#unsupported = new LRUCache({ max: MAX_REMEMBERED, ttl: UNSUPPORTED_MS, perf: clock, ttlResolution: 0 });
  }

  /** A registry that cannot tell is an answer; one that fails, denies or limits is a RegistryError. */
  async read(reference: Reference, digest: string, options: HostOptions): Promise<ReferrersFact> {
    const host = options.mirror?.host ?? reference.registry;
    const base = { ...options, reference, subject: `referrers of ${digest} in ${format(reference)}` };
    // Both at once: a registry that was upgraded keeps the older ones under the tag only.
    const [api, tag] = await Promise.allSettled([this.#api(host, base, digest), this.#fallbackTag(base, digest)]);
    if (api.status === 'rejected') throw api.reason;
    // Where the API answers, a tag that cannot be read takes nothing away.
    if (tag.status === 'rejected' && 'absent' in api.value) throw tag.reason;
    return referrersFact(host, digest, api.value, tag.status === 'fulfilled' ? tag.value : undefined);
  }

  async #api(host: string, base: Omit<Ask, 'path'>, digest: string): Promise<ApiAnswer> {
    // A project that answers oddly must not hide the referrers of the others.
    const key = `${host} ${partOf(base.reference)}`;
    const remembered = this.#unsupported.get(key);
    if (remembered !== undefined) return { absent: remembered };
    const accept = MEDIA_TYPE.ociIndex;
    const entries: Descriptor[] = [];
    let bytes = 0;
    let path: string | URL | undefined = `referrers/${digest}`;
    for (let page = 0; path !== undefined; page += 1) {
      if (page >= MAX_PAGES || entries.length >= MAX_ENTRIES || bytes >= MAX_BYTES)
        return { entries: entries.slice(0, MAX_ENTRIES), cut: true };
      const reply: Reply = await this.#session.ask({ ...base, path, accept });
      const found = reply.status === 200 ? referrerEntries(reply.body.toString('utf8')) : undefined;
      if (found === undefined) return this.#absent(host, key, reply);
      entries.push(...found);
      bytes += reply.body.length;
      path = nextPage(reply);
    }
    return { entries, cut: false };
  }

  #absent(host: string, key: string, reply: Reply): ApiAnswer {
    const { status } = reply;
    if (isReferrersFailure(status)) throw reply.failure();
    const absent = referrersAbsent(host, status);
    // 404 may be about the repository, so it says nothing about others.
    if (status !== 404) this.#unsupported.set(key, absent);
    return { absent };
  }

  /** The tag that clients keep where the registry has no API; undefined if there is none that is an index. */
  async #fallbackTag(base: Omit<Ask, 'path'>, digest: string): Promise<readonly Descriptor[] | undefined> {
    const reply = await this.#session.ask({ ...base, path: `manifests/${fallbackTag(digest)}`, accept: ACCEPT });
    if (reply.status === 404 || reply.status === 400) return undefined;
    if (reply.status !== 200) throw reply.failure();
    // GitLab answers with the subject itself, which may well be an index: of platforms, not of referrers.
    if (verifiedDigest(reply, base.reference, undefined) === digest) return undefined;
    return referrerEntries(reply.body.toString('utf8'))?.slice(0, MAX_ENTRIES);
  }
}

/** The next page, on the host that sent this one: a list must not lead Harbinger elsewhere. */
function nextPage({ links, url }: Reply): URL | undefined {
  const target = nextLink(links);
  if (target === undefined || !URL.canParse(target, url.href)) return undefined;
  const next = new URL(target, url);
  return next.host === url.host && next.protocol === url.protocol && next.pathname.startsWith('/v2/') ? next : undefined;
}
