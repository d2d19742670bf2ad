import { afterEach } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { Caches } from '../../../src/controller/caches.js';
import type { Page, WatchPort } from '../../../src/kube/client.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';

const started: Caches[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((caches) => caches.stop()));
});

/** Caches of a cluster with these objects, by plural of their kind; they are stopped after the test. */
export async function cachesOf(objects: Record<string, object[]>, withoutKueue: string[] = []): Promise<Caches> {
  const client: WatchPort = {
    listPage: <T extends KubeObject>({ plural }: Resource, options?: { labelSelector?: string }) =>
      // Nothing here carries a label that is asked for.
      Promise.resolve({
        items: options?.labelSelector === undefined ? (objects[plural] ?? []) : [],
        resourceVersion: '1',
      } as unknown as Page<T>),
    async *watch(_resource, options) {
      await new Promise((_resolve, reject) => options?.signal?.addEventListener('abort', () => reject(new Error('aborted'))));
      yield* [];
    },
  };
  const caches = new Caches({
    client,
    namespace: 'harbinger-system',
    clock: new FakeClock(),
    log: keepLog().log,
    metrics: new Metrics(),
    withoutKueue: () => withoutKueue,
  });
  started.push(caches);
  caches.start();
  await caches.coreSynced();
  await caches.gangsSynced();
  return caches;
}
