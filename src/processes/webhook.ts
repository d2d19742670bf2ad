import { GROUP, INSTALL } from '../api/names.js';
import { followConfig } from '../config/follow.js';
import { tellMode } from '../config/tell-mode.js';
import { KubeClient } from '../kube/client.js';
import { EventRecorder } from '../kube/events.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE } from '../kube/resources.js';
import { systemClock } from '../observe/clock.js';
import { HealthServer } from '../observe/health.js';
import type { Log } from '../observe/log.js';
import { createLog } from '../observe/log.js';
import { Metrics } from '../observe/metrics.js';
import { onShutdown } from '../observe/shutdown.js';
import type { Scope } from '../rewrite/scope.js';
import { createRegistry } from '../registry/index.js';
import { VERSION } from '../version.js';
import { Answers } from '../webhook/answers.js';
import { AuthorityKeeper } from '../webhook/certs/authority.js';
import type { WebhookView } from '../webhook/certs/ca-bundle.js';
import { webhookView } from '../webhook/certs/ca-bundle.js';
import { CertKeeper } from '../webhook/certs/keeper.js';
import { Coverage } from '../webhook/coverage.js';
import { drain } from '../webhook/drain.js';
import { Facts } from '../webhook/facts.js';
import { AdmissionMetrics } from '../webhook/metrics.js';
import { LagMeter, Overload } from '../webhook/overload.js';
import { PodCredentials } from '../webhook/pod-credentials.js';
import { PolicyTallies } from '../webhook/policy-tally.js';
import { Reviewer } from '../webhook/reviewer.js';
import { AdmissionServer, MAX_BODY_BYTES } from '../webhook/server.js';
import { Watchdog } from '../webhook/watchdog.js';
import type { WebhookOptions } from './options.js';
import { followRegistry } from './registry.js';

/** Open connections are cut so long after the propagation delay; kubelets kill 30 s after SIGTERM. */
const DRAIN_DEADLINE_MS = 10_000;

const monotonic = (): number => performance.now();

/** The webhook process: admissions, its certificates, and the watchdog over holds. Resolves once it listens. */
export async function runWebhook(options: WebhookOptions): Promise<void> {
  const log = createLog({ level: options.logLevel, name: 'webhook' });
  // First of all: as process 1, Node ignores signals that nobody handles.
  const shutdown = onShutdown(log, [], { deadlineMs: options.drainDelay + DRAIN_DEADLINE_MS + 5_000 });
  const clock = systemClock;
  const settings = await followConfig(options.config, { clock, log });
  const metrics = new Metrics().withDefaults();
  tellMode(settings, { log, metrics });
  const admission = new AdmissionMetrics(metrics, monotonic);
  const client = await KubeClient.fromKubeconfig(options.kubeconfig, { userAgent: `harbinger-webhook/${VERSION}` });

  const registry = followRegistry(settings, (config) => createRegistry(config, { log, metrics, clock }), log);
  const facts = new Facts({ client, namespace: options.namespace, clock, log, metrics, admission });
  const answers = new Answers({ registry: () => registry.current, clock, log });
  const credentials = new PodCredentials({ client, clock, log });
  const coverage = new Coverage({ client, namespace: options.namespace, clock, log, metrics });
  const tallies = new PolicyTallies({ client, counts: (policy) => facts.counts(policy), clock, log, random: Math.random });
  const reviewer = new Reviewer({
    config: () => settings.current,
    facts,
    answers,
    credentials,
    coverage,
    tallies,
    metrics: admission,
    monotonic,
    log,
  });
  const lag = new LagMeter(clock, monotonic);
  const overload = new Overload({ limits: () => settings.current.budgets, lagMs: () => lag.lagMs, maxBodyBytes: MAX_BODY_BYTES });
  const server = new AdmissionServer({
    port: options.port,
    review: (request) => reviewer.review(request),
    overload,
    metrics: admission,
    log,
  });
  const certs = createCerts(options, { client, log, metrics, server, scope: () => settings.current.scope });
  const events = new EventRecorder({ client, controller: `${GROUP}/webhook`, instance: options.identity, clock, log, metrics });
  const watchdog = new Watchdog({
    client,
    lease: { namespace: options.namespace, name: INSTALL.watchdogLease, identity: options.identity },
    unstampedHoldMs: () => settings.current.budgets.unstampedHoldSeconds * 1000,
    gatedMs: () => {
      const { gatedJobs, gatedSeconds } = settings.current.holds;
      return gatedJobs === 'On' ? gatedSeconds * 1000 : undefined;
    },
    clock,
    monotonic,
    log,
    metrics,
    admission,
    events,
  });

  const health = new HealthServer({ port: options.healthPort, metrics, log });
  health.check('certificates', () => certs.keeper.problem);
  health.check('caches', () => facts.staleness);
  await health.start();
  await server.listen();
  lag.start();
  facts.start();
  coverage.follow(settings);
  certs.start();
  watchdog.start();
  log.info({ port: server.port, healthPort: health.port, version: VERSION, mode: settings.current.mode }, 'webhook started');

  shutdown.add(
    {
      name: 'drain',
      run: () =>
        drain({ server, unready: () => health.drain(), clock, propagationMs: options.drainDelay, deadlineMs: DRAIN_DEADLINE_MS }),
    },
    { name: 'counts of policies', run: () => tallies.stop() },
    { name: 'watchdog', run: () => watchdog.stop() },
    { name: 'events', run: () => events.stop() },
    { name: 'certificates', run: () => certs.stop() },
    { name: 'caches', run: () => facts.stop() },
    { name: 'coverage', run: () => coverage.stop() },
    { name: 'configuration', run: () => settings.stop() },
    { name: 'registries', run: () => registry.current.close() },
    { name: 'api client', run: () => client.close() },
    { name: 'health', run: () => health.stop() },
  );
}

interface CertParts {
  client: KubeClient;
  log: Log;
  metrics: Metrics;
  server: AdmissionServer;
  scope: () => Scope;
}

function createCerts(
  options: WebhookOptions,
  { client, log, metrics, server, scope }: CertParts,
): { keeper: CertKeeper; start(): void; stop(): Promise<void> } {
  const clock = systemClock;
  const secret = { namespace: options.namespace, name: options.caSecret };
  const configurationName = options.webhookConfiguration;
  const configuration = new Reflector<WebhookView>({
    client,
    resource: RESOURCE.mutatingWebhooks,
    fieldSelector: `metadata.name=${configurationName}`,
    project: webhookView,
    clock,
    log,
    metrics,
  });
  const expires = metrics.gauge(
    'harbinger_certificate_expires_seconds',
    'When the certificate in use expires, in seconds since the epoch.',
  );
  const keeper: CertKeeper = new CertKeeper({
    client,
    authority: new AuthorityKeeper({ client, secret, validityMs: options.caValidity, clock, log }),
    configuration,
    configurationName,
    names: options.servingName,
    leafValidityMs: options.leafValidity,
    scope,
    clock,
    log,
    onLeaf: (leaf) => {
      server.setCertificate(leaf.pair);
      expires.set(Date.parse(leaf.cert.validTo) / 1000);
    },
  });
  return {
    keeper,
    start: () => {
      configuration.start();
      keeper.start();
    },
    stop: async () => {
      await keeper.stop();
      await configuration.stop();
    },
  };
}
