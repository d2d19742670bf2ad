import { expect, test } from '@jest/globals';
import { NotObserved, Observer } from '../../../demo/observer.js';
import type { ClusterClient, Raw, WatchEvent } from '../../cluster/client.js';

function object(name: string, resourceVersion = '1'): Raw {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'n', uid: name, resourceVersion, creationTimestamp: '' } };
}

const added = (o: Raw): WatchEvent => ({ type: 'ADDED', object: o });
const synced: WatchEvent = { type: 'BOOKMARK', object: object('') };

/** A client whose watches give these events one after the other and then hang until the test ends. */
function clientOf(...watches: (WatchEvent[] | Error)[]): ClusterClient {
  let n = 0;
  async function* watch(_kind: string, { signal }: { signal?: AbortSignal }): AsyncGenerator<WatchEvent> {
    const events = watches[n++];
    if (events instanceof Error) throw events;
    yield* events ?? [];
    if (n >= watches.length)
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new Error('aborted'))));
  }
  return { watch } as unknown as ClusterClient;
}

async function observing(client: ClusterClient, check: (observer: Observer) => Promise<void>): Promise<void> {
  const end = new AbortController();
  try {
    await check(new Observer(client, end.signal));
  } finally {
    end.abort(new Error('the test is over'));
  }
}

const names = (observer: Observer): string[] => observer.list('pods').map((p) => p.metadata.name);
const changes = (observer: Observer): string[] => observer.observations.map((o) => `${o.type} ${o.object.metadata.name}`);

test('following resolves when all that existed is in', () =>
  observing(clientOf([added(object('a')), added(object('b')), synced]), async (observer) => {
    await observer.follow('pods', 'v1/Pod');
    expect(names(observer)).toEqual(['a', 'b']);
  }));

test('a refused watch is begun anew', () =>
  observing(clientOf(new Error('429'), [added(object('a')), synced]), async (observer) => {
    await observer.follow('pods', 'v1/Pod');
    expect(names(observer)).toEqual(['a']);
  }));

test('after a broken watch only what changed is observed, deletions included', () =>
  observing(
    clientOf([added(object('a')), added(object('b')), synced], [added(object('a')), added(object('c')), synced]),
    async (observer) => {
      await observer.follow('pods', 'v1/Pod');
      await observer.wait({
        what: 'c',
        probe: () => names(observer).includes('c'),
        timeoutMs: 5000,
        last: () => names(observer),
      });
      await observer.wait({
        what: 'no b',
        probe: () => !names(observer).includes('b'),
        timeoutMs: 5000,
        last: () => names(observer),
      });
      expect(changes(observer)).toEqual(['ADDED a', 'ADDED b', 'ADDED c', 'DELETED b']);
    },
  ));

test('a wait that is over says what was expected and what was there', () =>
  observing(clientOf([added(object('a')), synced]), async (observer) => {
    await observer.follow('pods', 'v1/Pod');
    const wait = observer.wait({ what: 'Pod z', probe: () => false, timeoutMs: 20, last: () => names(observer) });
    await expect(wait).rejects.toThrow(NotObserved);
    await expect(wait).rejects.toThrow(/Pod z: not observed within 0.02 s[^]*"a"/);
  }));

test('an interrupt ends a wait at once', async () => {
  const end = new AbortController();
  const observer = new Observer(clientOf([synced]), end.signal);
  const wait = observer.wait({ what: 'never', probe: () => false, timeoutMs: 60_000, last: () => '' });
  end.abort(new Error('interrupted'));
  await expect(wait).rejects.toThrow('interrupted');
});
