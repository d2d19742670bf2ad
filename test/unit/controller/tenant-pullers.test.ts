import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { KubeObject } from '../../../src/api/object.js';
import { rejectionReader } from '../../../src/controller/pullers/rejections.js';
import { refusalOfSet } from '../../../src/controller/pullers/refusal.js';
import { ownersOf, refusedTenants } from '../../../src/controller/pullers/tenants.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { ListOptions } from '../../../src/kube/port.js';
import type { EngineStep } from '../../../src/preheat/backends/daemonset/steps.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { puller } from '../preheat/fixtures.js';

const theirs = puller('a', { tenant: { namespace: 'team', secrets: ['registry'] } });
const central = puller('b');

describe('pullers of tenants in a plan', () => {
  const view = (name: string, pullers: Puller[], keep = true) => ({
    prewarm: { metadata: { name, namespace: 'team', uid: `uid-${name}` } } as ImagePrewarm,
    planned: { keep, targets: [{ name: 'main', pullers, complete: true, candidates: { nodes: [], needed: 0 } }] } as never,
  });

  test('are owned by every ImagePrewarm that wants them, by none that is over, and central ones by nobody', () => {
    const owners = ownersOf([view('one', [theirs, central]), view('two', [theirs, theirs]), view('over', [theirs], false)]);
    expect([...owners.keys()]).toEqual([theirs.hash]);
    expect(owners.get(theirs.hash)?.map((o) => o.uid)).toEqual(['uid-one', 'uid-two']);
    expect(owners.get(theirs.hash)?.[0]).not.toHaveProperty('controller');
  });
  test('are refused while they are switched off, beside what is refused anyway', () => {
    const before = new Map([['x', 'words']]);
    const views = [view('one', [theirs, central])];
    expect(refusedTenants(views, 'WhereAllowed', before)).toBe(before);
    const off = refusedTenants(views, 'Off', before);
    expect([...off.keys()]).toEqual(['x', theirs.hash]);
    expect(off.get(theirs.hash)).toContain('pullers.workloadNamespaces');
    expect(refusedTenants([view('two', [central])], 'Off', before)).toBe(before);
  });
});

describe('why the API server will not have a DaemonSet', () => {
  const own = 'harbinger-system';
  const step = (of: Puller): EngineStep => {
    const [made] = engineSteps(new Map([[of.hash, { puller: of, nodes: new Set(['n1']) }]]), [], {
      namespace: own,
      program: 'p',
    });
    if (made === undefined) throw new Error('no step');
    return made;
  };
  const error = (status: number, reason: string, words: string): KubeError => new KubeError(words, { status, reason });
  const forbidden = error(403, 'Forbidden', 'create: User "x" cannot create resource "daemonsets" in the namespace "team"');
  const taken = error(409, 'AlreadyExists', 'create: exists');
  type Row = [string, { cause: KubeError; of: Puller; failures: number; inDoubt: boolean; says: RegExp | undefined }];
  const row = (
    title: string,
    cause: KubeError,
    [of, failures, inDoubt = false]: [Puller, number, boolean?],
    says?: RegExp,
  ): Row => [title, { cause, of, failures, inDoubt, says }];
  const rows: Row[] = [
    row(
      'without the role in the namespace of a tenant: which to bind',
      forbidden,
      [theirs, 1],
      /bind ClusterRole harbinger-workload-pullers .* in namespace team$/,
    ),
    row('without it in our own: the words alone', forbidden, [central, 1], /namespace "team"$/),
    row('forbidden by a policy: its words alone', error(403, 'Forbidden', 'denied by policy'), [theirs, 1], /^denied by policy$/),
    row('a name that is taken, at first: the cache may lag', taken, [theirs, 2]),
    row('a name that stays taken: left alone', taken, [theirs, 3], /was not made by Harbinger/),
    row('a name that stays taken, perhaps by an attempt of ours without an answer', taken, [theirs, 9, true]),
    row('an edit of a set that somebody has made anew: may pass', error(422, 'Invalid', 'metadata.uid: field is immutable'), [
      central,
      1,
    ]),
    row('a server that is full: may pass', error(429, 'TooManyRequests', 'later'), [theirs, 5]),
    row('no answer: may pass', error(0, 'Timeout', 'no answer'), [theirs, 5]),
  ];
  test.each(rows)('%s', (_, { cause, of, failures, inDoubt, says }) => {
    const refusal = refusalOfSet(cause, { step: step(of), failures, inDoubt, namespace: own });
    if (says === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toMatch(says);
  });
});

describe('what the DaemonSet controller said of a set', () => {
  const event = (at: string, note: string): KubeObject =>
    ({ ...bare, eventTime: null, deprecatedLastTimestamp: at, reason: 'FailedCreate', note }) as never;
  const bare = { apiVersion: 'events.k8s.io/v1', kind: 'Event', metadata: { name: 'e' } };
  const reader = (pages: KubeObject[][] | Error, asked: ListOptions[] = []) =>
    rejectionReader({
      list: (_resource: unknown, options: ListOptions) => {
        asked.push(options);
        return pages instanceof Error
          ? new Readable({
              objectMode: true,
              read() {
                this.destroy(pages);
              },
            })
          : Readable.from(pages);
      },
    });
  const set = { namespace: 'team', uid: 'uid-x' };

  test('is the latest of its warnings, asked for by UID, since one of that name may have been refused long ago, and in pages', async () => {
    const asked: ListOptions[] = [];
    const pages = [[event('2026-01-01T00:00:02Z', 'new')], [event('2026-01-01T00:00:01Z', 'old')]];
    expect(await reader(pages, asked)(set)).toBe('FailedCreate: new');
    expect(asked).toMatchObject([
      { namespace: 'team', fieldSelector: 'regarding.kind=DaemonSet,regarding.uid=uid-x,type=Warning' },
    ]);
    expect(asked[0]?.limit).toBeGreaterThan(0);
  });
  test('is nothing where it said nothing, or may not be asked', async () => {
    expect(await reader([[]])(set)).toBeUndefined();
    expect(await reader(new KubeError('forbidden', { status: 403, reason: 'Forbidden' }))(set)).toBeUndefined();
  });
});
