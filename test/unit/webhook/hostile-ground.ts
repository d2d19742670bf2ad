import { defaultConfig } from '../../../src/config/load.js';
import { createLog } from '../../../src/observe/log.js';
import { systemClock } from '../../../src/observe/clock.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';
import { Answers } from '../../../src/webhook/answers.js';
import { readAuthority, regenerate } from '../../../src/webhook/certs/ca-secret.js';
import { signLeaf } from '../../../src/webhook/certs/leaf.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { LagMeter, Overload } from '../../../src/webhook/overload.js';
import { Reviewer } from '../../../src/webhook/reviewer.js';
import { AdmissionServer, MAX_BODY_BYTES } from '../../../src/webhook/server.js';
import { MemoryRegistry, manifestBody } from '../images/support.js';
import { makePolicy, makeRecord, DIGEST } from '../rewrite/builders.js';

export const GOOD_IMAGE = 'r.example.com/good:v1';
export const PINNED = `r.example.com/good@${DIGEST}`;
const HOUR = 3_600_000;
const NAMESPACE = { name: 'team', labels: { 'harbinger.dev/accelerate': 'enabled' }, annotations: {} };

export interface HostileOptions {
  /** Time for a request to come in, milliseconds. */
  requestMs?: number;
  /** Whether a busy event loop sheds, as in production; else only what is in flight counts. */
  lag?: boolean;
}

/** The server with everything behind it that a Pod passes through, over TLS; facts and registry are in memory. */
export class HostileGround {
  readonly server: AdmissionServer;
  readonly overload: Overload;
  readonly registry = new MemoryRegistry().set(GOOD_IMAGE, manifestBody({ name: 'good' }));
  policies: readonly Policy[] = [makePolicy('p')];
  /** PEM. */
  readonly ca: string;

  constructor({ requestMs, lag = false }: HostileOptions = {}) {
    const log = createLog({ level: 'silent', name: 'test' });
    const metrics = new AdmissionMetrics(new Metrics(), () => performance.now());
    const data = regenerate(undefined, Date.now(), HOUR);
    const authority = readAuthority({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'ca' }, data });
    this.ca = authority.cert.toString();
    const facts = {
      problem: undefined,
      policies: [] as readonly Policy[],
      namespace: () => Promise.resolve(NAMESPACE),
      records: () => [makeRecord(GOOD_IMAGE, PINNED)],
      landing: () => ({ platforms: undefined, now: {}, later: {}, key: '' }),
      quarantine: () => undefined,
    };
    Object.defineProperty(facts, 'policies', { get: () => this.policies });
    const answers = new Answers({ registry: () => this.registry, clock: systemClock, log });
    const reviewer = new Reviewer({
      config: defaultConfig,
      facts,
      answers,
      credentials: { of: () => Promise.reject(new Error('not asked here')) },
      coverage: { nodesWith: () => [] },
      tallies: { count: () => undefined },
      metrics,
      monotonic: () => performance.now(),
      log,
    });
    const meter = new LagMeter(systemClock, () => performance.now());
    if (lag) meter.start();
    this.overload = new Overload({
      limits: () => defaultConfig().budgets,
      lagMs: () => meter.lagMs,
      maxBodyBytes: MAX_BODY_BYTES,
    });
    this.server = new AdmissionServer({
      port: 0,
      host: '127.0.0.1',
      review: (request) => reviewer.review(request),
      overload: this.overload,
      metrics,
      log,
      ...(requestMs === undefined ? {} : { requestMs }),
    });
    this.server.setCertificate(signLeaf(authority, ['127.0.0.1'], Date.now(), HOUR).pair);
  }
}
