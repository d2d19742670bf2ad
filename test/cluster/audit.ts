import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** One audited request, as far as tests look at it. */
export interface AuditEvent {
  /** `Panic`, `ResponseStarted` (watches) or `ResponseComplete`. */
  stage: string;
  /** Start of the request, epoch ms. */
  at: number;
  /** End of this stage, epoch ms. */
  endedAt: number;
  user: string;
  groups: string[];
  userAgent: string;
  verb: string;
  uri: string;
  apiGroup: string;
  resource: string;
  subresource: string;
  namespace: string;
  name: string;
  code: number;
  /** For instance which webhooks were called and which of them mutated. */
  annotations: Record<string, string>;
}

export interface AuditFilter {
  /** Exact user name, or the short form of a service account: `namespace:name`. */
  user?: string;
  verb?: string;
  /** `pods`, or with subresource `pods/status`; without a slash subresources match too. */
  resource?: string;
  namespace?: string;
  name?: string;
  code?: number;
  /** Epoch ms: only requests that began at or after this time. */
  since?: number;
  /** Default ResponseComplete; watches complete when they end, so ask for ResponseStarted to see open ones. */
  stage?: 'ResponseStarted' | 'ResponseComplete' | 'any';
}

/** The API server's audit log as an oracle: who asked for what, and what came of it. */
export class AuditLog {
  readonly #path: string;
  readonly #events: AuditEvent[] = [];
  readonly #decoder = new TextDecoder();
  #offset = 0;
  #rest = '';

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Events that match every given field, in the order of the log. An event is written when its response is sent: right
   * after a call it may not be there yet, so wait for it with `until`.
   */
  query(filter: AuditFilter = {}): AuditEvent[] {
    this.#read();
    return this.#events.filter((event) => matches(event, filter));
  }

  // Only what was added since the last query is read: the log of a long run has hundreds of megabytes.
  #read(): void {
    let file: number;
    try {
      file = openSync(this.#path, 'r');
    } catch {
      return; // no request yet
    }
    try {
      const size = fstatSync(file).size;
      const chunk = Buffer.alloc(4 << 20);
      while (this.#offset < size) {
        const count = readSync(file, chunk, 0, Math.min(chunk.length, size - this.#offset), this.#offset);
        if (count === 0) break;
        this.#offset += count;
        this.#take(this.#decoder.decode(chunk.subarray(0, count), { stream: true }));
      }
    } finally {
      closeSync(file);
    }
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) if (line) this.#events.push(slim(JSON.parse(line)));
  }
}

interface RawEvent {
  stage: string;
  requestReceivedTimestamp: string;
  stageTimestamp: string;
  user: { username?: string; groups?: string[] };
  userAgent?: string;
  verb: string;
  requestURI: string;
  objectRef?: { apiGroup?: string; resource?: string; subresource?: string; namespace?: string; name?: string };
  responseStatus?: { code?: number };
  annotations?: Record<string, string>;
}

function slim(raw: RawEvent): AuditEvent {
  const object = raw.objectRef ?? {};
  return {
    stage: raw.stage,
    at: Date.parse(raw.requestReceivedTimestamp),
    endedAt: Date.parse(raw.stageTimestamp),
    user: raw.user.username ?? '',
    groups: raw.user.groups ?? [],
    userAgent: raw.userAgent ?? '',
    verb: raw.verb,
    uri: raw.requestURI,
    apiGroup: object.apiGroup ?? '',
    resource: object.resource ?? '',
    subresource: object.subresource ?? '',
    namespace: object.namespace ?? '',
    name: object.name ?? '',
    code: raw.responseStatus?.code ?? 0,
    annotations: raw.annotations ?? {},
  };
}

function matches(event: AuditEvent, filter: AuditFilter): boolean {
  const { stage = 'ResponseComplete', user, resource, since, ...exact } = filter;
  if (stage !== 'any' && event.stage !== stage) return false;
  if (user !== undefined && event.user !== user && event.user !== `system:serviceaccount:${user}`) return false;
  if (since !== undefined && event.at < since) return false;
  if (resource !== undefined && event.resource !== resource && `${event.resource}/${event.subresource}` !== resource)
    return false;
  return Object.entries(exact).every(([key, value]) => value === undefined || event[key as keyof AuditEvent] === value);
}
