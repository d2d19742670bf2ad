import type { Dispatcher } from 'undici';
import { Agent, ProxyAgent } from 'undici';
import type { Credentials, Identity, Tls } from './credentials.js';

export interface Outgoing {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Path and query. */
  path: string;
  body?: string;
  contentType?: string;
  /** Media type of the answer; plain JSON when absent. */
  accept?: string | undefined;
  signal: AbortSignal;
  /** Watches hold a connection for minutes, so they have an agent of their own. */
  watch?: boolean;
}

interface Agents {
  fingerprint: string;
  tls: Tls;
  calls: Dispatcher;
  watches: Dispatcher;
}

/** Connections for calls; more would only queue inside the API server's own fairness. */
const CALL_CONNECTIONS = 16;
const CONNECT_TIMEOUT_MS = 5_000;
/** Below the idle time after which common load balancers forget a connection without telling. */
const KEEP_ALIVE_MS = 30_000;

/** Authenticated HTTP/1.1 requests to one API server over kept connections; answers come with their body still unread. */
export class Transport {
  readonly #credentials: Credentials;
  readonly #userAgent: string;
  #agents: Agents | undefined;
  readonly #retired = new Set<Dispatcher>();

  constructor(credentials: Credentials, userAgent: string) {
    this.#credentials = credentials;
    this.#userAgent = userAgent;
  }

  /** Of the context. */
  get namespace(): string | undefined {
    return this.#credentials.namespace;
  }

  get server(): string {
    return this.#credentials.server;
  }

  /** A 401 is answered by reading the credentials again and asking once more: the token file was replaced just now. */
  async send(request: Outgoing): Promise<Dispatcher.ResponseData> {
    const answer = await this.#once(request, await this.#credentials.current());
    if (answer.statusCode !== 401) return answer;
    await answer.body.dump();
    return this.#once(request, await this.#credentials.renew());
  }

  /**
   * A call was not answered: its connection may be half-open, and so may all others that are kept. They get no new calls, or each of
   * them would cost the next caller a deadline.
   */
  suspect(): void {
    if (this.#agents === undefined) return;
    const { calls, tls } = this.#agents;
    this.#agents = { ...this.#agents, calls: agent(tls, this.#credentials.proxyUrl, CALL_CONNECTIONS) };
    this.#retire(calls);
  }

  /** Lets an agent finish what it carries. */
  #retire(old: Dispatcher): void {
    this.#retired.add(old);
    void old
      .close()
      .catch(() => undefined)
      .finally(() => this.#retired.delete(old));
  }

  async close(): Promise<void> {
    const agents = this.#agents;
    this.#agents = undefined;
    const all = [...this.#retired, ...(agents === undefined ? [] : [agents.calls, agents.watches])];
    await Promise.all(all.map((each) => each.destroy()));
  }

  #once(request: Outgoing, identity: Identity): Promise<Dispatcher.ResponseData> {
    const { calls, watches } = this.#agentsFor(identity);
    const base = new URL(this.server);
    return (request.watch ? watches : calls).request({
      origin: base.origin,
      path: `${base.pathname.replace(/\/$/, '')}${request.path}`,
      method: request.method,
      headers: {
        ...identity.headers,
        accept: request.accept ?? 'application/json',
        'user-agent': this.#userAgent,
        ...(request.contentType === undefined ? {} : { 'content-type': request.contentType }),
      },
      body: request.body ?? null,
      signal: request.signal,
    });
  }

  /** New agents when CA or client certificate changed; the old ones finish what they carry. */
  #agentsFor({ fingerprint, tls }: Identity): Agents {
    if (this.#agents?.fingerprint === fingerprint) return this.#agents;
    if (this.#agents !== undefined) for (const old of [this.#agents.calls, this.#agents.watches]) this.#retire(old);
    const { proxyUrl } = this.#credentials;
    this.#agents = { fingerprint, tls, calls: agent(tls, proxyUrl, CALL_CONNECTIONS), watches: agent(tls, proxyUrl, null) };
    return this.#agents;
  }
}

function agent(tls: Tls, proxyUrl: string | undefined, connections: number | null): Dispatcher {
  const common = {
    connections,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Every caller brings a deadline of its own, and a quiet watch is not a fault.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  if (proxyUrl !== undefined) return new ProxyAgent({ ...common, uri: proxyUrl, requestTls: tls });
  return new Agent({ ...common, connect: { ...tls, timeout: CONNECT_TIMEOUT_MS } });
}
