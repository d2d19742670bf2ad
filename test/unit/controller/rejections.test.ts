import { expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { Caches } from '../../../src/controller/caches.js';
import type { ListOptions } from '../../../src/kube/port.js';
import type { Page, WatchPort } from '../../../src/kube/client.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';

const event = (uid: string, note: string): KubeObject =>
  ({
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: uid, namespace: 'harbinger-system', resourceVersion: '1' },
    regarding: { kind: 'DaemonSet', name: 'puller-a', uid },
    deprecatedLastTimestamp: '2026-01-01T00:00:00Z',
    reason: 'FailedCreate',
    note,
  }) as never;

test('complaints about a set are warnings about that very set, not about one that had its name, nor news of Pods that were made', async () => {
  const asked: (ListOptions | undefined)[] = [];
  const client: WatchPort = {
    listPage: <T extends KubeObject>({ plural }: Resource, options?: ListOptions) => {
      if (plural === 'events') asked.push(options);
      const items = plural === 'events' ? [event('old', 'exceeded quota'), event('new', 'violates PodSecurity')] : [];
      return Promise.resolve({ items, resourceVersion: '1' } as unknown as Page<T>);
    },
    async *watch(_resource, options) {
      await new Promise((_resolve, reject) => options?.signal?.addEventListener('abort', () => reject(new Error('aborted'))));
      yield* [];
    },
  };
  const clock = new FakeClock();
  const caches = new Caches({
    client,
    namespace: 'harbinger-system',
    clock,
    log: keepLog().log,
    metrics: new Metrics(),
    withoutKueue: () => [],
  });
  try {
    caches.start();
    await caches.coreSynced();
    expect(asked[0]).toMatchObject({ namespace: 'harbinger-system', fieldSelector: 'regarding.kind=DaemonSet,type=Warning' });
    expect(caches.rejections.byIndex('set', 'new').map((r) => r.note)).toEqual(['FailedCreate: violates PodSecurity']);
    expect(caches.rejections.byIndex('set', 'puller-a')).toEqual([]);
  } finally {
    await caches.stop();
  }
});
