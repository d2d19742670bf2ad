import { GROUP } from '../api/names.js';
import { followConfig } from '../config/follow.js';
import { tellMode } from '../config/tell-mode.js';
import { failpointFrom } from '../controller/failpoint.js';
import { Manager } from '../controller/manager.js';
import { KubeClient } from '../kube/client.js';
import { EventRecorder } from '../kube/events.js';
import { Lease } from '../kube/lease.js';
import { systemClock } from '../observe/clock.js';
import { HealthServer } from '../observe/health.js';
import type { Log } from '../observe/log.js';
import { createLog } from '../observe/log.js';
import { Metrics } from '../observe/metrics.js';
import { onShutdown } from '../observe/shutdown.js';
import { createRegistry } from '../registry/index.js';
import { VERSION } from '../version.js';
import type { ControllerOptions } from './options.js';
import { followRegistry } from './registry.js';

/** How often what keeps the controller from working is said again in the log while it lasts, ms. */
const PROBLEM_INTERVAL_MS = 30_000;

/** The controller process: follows the cluster, and acts while it holds the Lease. Resolves once it runs. */
export async function runController(options: ControllerOptions): Promise<void> {
  const log = createLog({ level: options.logLevel, name: 'controller' });
  const shutdown = onShutdown(log, []);
  const clock = systemClock;
  const settings = await followConfig(options.config, { clock, log });
  const metrics = new Metrics().withDefaults();
  tellMode(settings, { log, metrics });
  const client = await KubeClient.fromKubeconfig(options.kubeconfig, { userAgent: `harbinger-controller/${VERSION}` });
  const registry = followRegistry(settings, (config) => createRegistry(config, { log, metrics, clock }), log);
  const events = new EventRecorder({
    client,
    controller: `${GROUP}/controller`,
    instance: options.identity,
    clock,
    log,
    metrics,
  });
  const lease = new Lease({
    client,
    namespace: options.namespace,
    name: options.leaseName,
    identity: options.identity,
    clock,
    log,
  });
  const manager = new Manager({
    client,
    discovery: client,
    registry: () => registry.current,
    config: () => settings.current,
    events,
    clock,
    monotonic: () => performance.now(),
    log,
    metrics,
    namespace: options.namespace,
    pullerImage: options.pullerImage,
    leading: () => lease.held,
    failpoint: failpointFrom(process.env),
  });
  settings.onChange(() => manager.reconsider());

  const health = new HealthServer({ port: options.healthPort, metrics, log });
  health.check('caches', () => manager.problems('needed').join('; ') || undefined);
  await health.start();
  manager.follow();
  const complaints = complainOf(manager, log);
  const leading = lease.run(shutdown.signal, {
    onStarted: () => {
      log.info('leading');
      manager.lead().catch((err: unknown) => {
        log.error({ err }, 'cannot begin to lead');
        shutdown.begin('cannot begin to lead', 1);
      });
    },
    onStopping: () => manager.stop(),
    // Another replica may act from now on; what this one still has in hand must not be written.
    onLost: (reason) => {
      log.error({ reason }, 'the lease was lost, exiting');
      process.exit(1);
    },
  });
  log.info({ healthPort: health.port, version: VERSION, mode: settings.current.mode }, 'controller started');

  shutdown.add(
    { name: 'unready', run: () => health.drain() },
    { name: 'problems', run: () => complaints.stop() },
    { name: 'reconcilers', run: () => manager.stop() },
    { name: 'lease', run: () => leading },
    { name: 'events', run: () => events.stop() },
    { name: 'configuration', run: () => settings.stop() },
    { name: 'registries', run: () => registry.current.close() },
    { name: 'api client', run: () => client.close() },
    { name: 'health', run: () => health.stop() },
  );
}

/** Says in the log what the controller cannot see, when it begins and while it lasts: an absent Kueue is no crash. */
function complainOf(manager: Manager, log: Log): { stop(): void } {
  const look = (): void => {
    const problems = manager.problems();
    if (problems.length > 0) log.warn({ problems }, 'parts of the cluster are not known');
    timer = systemClock.setTimeout(look, PROBLEM_INTERVAL_MS);
  };
  let timer = systemClock.setTimeout(look, PROBLEM_INTERVAL_MS);
  return { stop: () => timer.cancel() };
}
