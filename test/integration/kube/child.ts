// A process of its own for tests that need one: `child big-list KUBECONFIG NAMESPACE slim|whole` follows all ConfigMaps of a namespace and
// prints what it took; `child lease KUBECONFIG NAMESPACE NAME` holds a Lease until it loses it, and then exits as a process has to.
import { hostname } from 'node:os';
import { KubeClient } from '../../../src/kube/client.js';
import { Lease } from '../../../src/kube/lease.js';
import { Reflector } from '../../../src/kube/reflector.js';
import { systemClock } from '../../../src/observe/clock.js';
import { createLog } from '../../../src/observe/log.js';
import { CONFIG_MAPS, LOST_LEASE_EXIT, SHORT_LEASE } from './shared.js';

const [mode = '', kubeconfig = '', namespace = '', last = ''] = process.argv.slice(2);
const log = createLog({ level: 'warn', name: 'child' });
const client = await KubeClient.fromKubeconfig(kubeconfig, { userAgent: `child-${mode}` });

async function bigList(): Promise<void> {
  const project = (raw: object): unknown => (last === 'whole' ? raw : null);
  let peak = 0;
  const reflector = new Reflector({ client, resource: CONFIG_MAPS, namespace, project, clock: systemClock, log });
  reflector.onChange(() => (peak = Math.max(peak, process.memoryUsage.rss())));
  const began = performance.now();
  reflector.start();
  await reflector.synced;
  const result = { objects: reflector.list().length, seconds: (performance.now() - began) / 1000, peakRssBytes: peak };
  await reflector.stop();
  await client.close();
  console.log(JSON.stringify(result));
}

async function holdLease(): Promise<void> {
  const lease = new Lease({
    client,
    namespace,
    name: last,
    identity: `${hostname()}-${process.pid}`,
    clock: systemClock,
    log,
    ...SHORT_LEASE,
  });
  const stop = new AbortController();
  process.on('SIGTERM', () => stop.abort());
  await lease.run(stop.signal, {
    onStarted: () => console.log('started'),
    onLost: () => {
      console.log('lost');
      process.exit(LOST_LEASE_EXIT);
    },
  });
  await client.close();
}

await (mode === 'big-list' ? bigList() : holdLease());
