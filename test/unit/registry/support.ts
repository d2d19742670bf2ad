import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RegistryConfig } from '../../../src/config/schema.js';
import { harbingerConfig } from '../../../src/config/schema.js';
import type { Reference } from '../../../src/images/reference.js';
import { parseReference } from '../../../src/images/reference.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { Credential, RegistryPort } from '../../../src/images/registry-port.js';
import type { Clock } from '../../../src/observe/clock.js';
import { createLog } from '../../../src/observe/log.js';
import type { Log } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { Breaker } from '../../../src/registry/breaker.js';
import { RegistryClient } from '../../../src/registry/client.js';
import { Egress } from '../../../src/registry/egress.js';
import type { Resolve } from '../../../src/registry/egress.js';
import { inLayers } from '../../../src/registry/layers.js';
import type { OwnSource } from '../../../src/registry/own-credentials.js';
import { RateLimits } from '../../../src/registry/rate-limit.js';
import type { SlotLimits } from '../../../src/registry/slots.js';

export type Handler = (request: IncomingMessage, response: ServerResponse, url: URL) => void;

/** A registry that misbehaves as told: real ones cannot be made to. */
export class RegistryDouble {
  readonly requests: { path: string; authorization: string | undefined; accept: string | undefined }[] = [];
  /** `METHOD /path?query` of each request. */
  readonly lines: string[] = [];
  readonly #server: Server;
  handler: Handler;

  private constructor(server: Server, handler: Handler) {
    this.#server = server;
    this.handler = handler;
  }

  static async start(handler: Handler = (_, response) => response.writeHead(404).end()): Promise<RegistryDouble> {
    const server = createServer();
    const double = new RegistryDouble(server, handler);
    server.on('request', (request, response) => {
      const url = new URL(request.url ?? '/', 'http://double');
      double.lines.push(`${request.method} ${decodeURIComponent(`${url.pathname}${url.search}`)}`);
      double.requests.push({
        path: `${url.pathname}${url.search}`,
        authorization: request.headers.authorization,
        accept: request.headers.accept,
      });
      double.handler(request, response, url);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return double;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Registry settings as the configuration file gives them. */
export function listed(host: string, more: Partial<RegistryConfig> = {}): RegistryConfig {
  const registry = harbingerConfig.parse({ registries: [{ host, plainHTTP: true, ...more }] }).registries[0];
  if (registry === undefined) throw new Error('no registry');
  return registry;
}

export function ref(text: string): Reference {
  const parsed = parseReference(text);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.reference;
}

/** A clock that stands still until it is moved. */
export class TestClock implements Clock {
  #now = 1_700_000_000_000;
  now = (): number => this.#now;
  setTimeout = (): { cancel: () => void } => ({ cancel: () => undefined });
  advance(ms: number): void {
    this.#now += ms;
  }
}

export interface ClientParts {
  registries: RegistryConfig[];
  clock?: Clock;
  metrics?: Metrics;
  /** Harbinger's own one. */
  credential?: Credential;
  own?: OwnSource;
  limits?: RateLimits;
  resolve?: Resolve;
  timeoutMs?: number;
  log?: Log;
}

export const silent = createLog({ level: 'silent', name: 'test' });

const ownOf = (credential: Credential | undefined): OwnSource => ({
  get: () => Promise.resolve(credential === undefined ? {} : { credential }),
});

const open = new Set<RegistryClient>();

/** For afterEach: a failed test must not leave connections that keep the run alive. */
export async function closeClients(): Promise<void> {
  await Promise.all([...open].map((client) => client.close()));
  open.clear();
}

export function clientOf({
  registries,
  clock = new TestClock(),
  metrics = new Metrics(),
  credential,
  own,
  limits,
  resolve,
  timeoutMs = 2000,
  log = silent,
}: ClientParts): RegistryClient {
  const client = new RegistryClient({
    egress: new Egress(registries),
    metrics,
    clock,
    own: own ?? ownOf(credential),
    limits: limits ?? new RateLimits({ clock, metrics }),
    log,
    timeoutMs,
    ...(resolve === undefined ? {} : { resolve }),
  });
  open.add(client);
  return client;
}

export interface Stack {
  port: RegistryPort;
  client: RegistryClient;
  breaker: Breaker;
  clock: TestClock;
  metrics: Metrics;
}

/** All that a process puts in front of registries, on a clock that stands still and with jitter of a known size. */
export function stackOf(parts: Omit<ClientParts, 'clock' | 'metrics'> & { random?: () => number; slots?: SlotLimits }): Stack {
  const [clock, metrics] = [new TestClock(), new Metrics()];
  const limits = new RateLimits({ clock, metrics });
  const egress = new Egress(parts.registries);
  const breaker = new Breaker(clock, parts.random ?? (() => 0));
  const own = parts.own ?? ownOf(parts.credential);
  const client = clientOf({ ...parts, own, clock, metrics, limits });
  const { slots = { total: 128, perHost: 32 }, log = silent } = parts;
  const port = inLayers(client, { egress, own, limits, breaker, slots, log, metrics, clock });
  return { port, client, breaker, clock, metrics };
}

/** A log whose lines are kept. */
export function spokenLog(): { log: Log; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  return { log: createLog({ level: 'debug', name: 'test', destination }), lines };
}

/** The RegistryError that a promise ends with; anything else fails the test. */
export async function failure(promise: Promise<unknown>): Promise<RegistryError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof RegistryError) return error;
    throw error;
  }
  throw new Error('expected a RegistryError, but the call succeeded');
}
