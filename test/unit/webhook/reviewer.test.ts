import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { Answer, Question } from '../../../src/rewrite/decide.js';
import type { GangRecord } from '../../../src/rewrite/record.js';
import type { AdmissionRequest } from '../../../src/webhook/admission-review.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { Reviewer } from '../../../src/webhook/reviewer.js';
import { keepLog } from '../kube/fake-clock.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord } from '../rewrite/builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;

interface World {
  config?: Partial<HarbingerConfig>;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  problem?: string;
  absent?: boolean;
  records?: GangRecord[];
}

function make(world: World = {}) {
  const asked: string[] = [];
  const looked: string[] = [];
  const { log, lines } = keepLog();
  const metrics = new Metrics();
  const facts = {
    problem: world.problem,
    policies: [makePolicy('p')],
    namespace: (name: string) =>
      Promise.resolve(
        world.absent === true
          ? undefined
          : { name, labels: world.labels ?? { 'harbinger.dev/accelerate': 'enabled' }, annotations: world.annotations ?? {} },
      ),
    records: (namespace: string, uids: readonly string[]) => {
      looked.push(...uids.map((uid) => `${namespace}/${uid}`));
      return uids.length > 0 ? (world.records ?? []) : [];
    },
  };
  const answers = {
    ask: (questions: readonly Question[]): Promise<Map<string, Answer>> => {
      asked.push(...questions.map((q) => q.key));
      return Promise.resolve(
        new Map(questions.map((q) => [q.key, { outcome: 'accelerated', image: VARIANT, format: 'estargz' }] as const)),
      );
    },
  };
  const config = { ...defaultConfig(), ...world.config };
  const reviewer = new Reviewer({ config: () => config, facts, answers, metrics: new AdmissionMetrics(metrics, () => 0), log });
  const counted = async (outcome: string): Promise<number> => {
    const all = (await metrics.text())
      .split('\n')
      .filter((l) => l.startsWith('harbinger_admission_decisions_total{') && l.includes(`outcome="${outcome}"`));
    return all.reduce((sum, l) => sum + Number(l.split(' ').at(-1)), 0);
  };
  return { reviewer, asked, looked, lines, counted };
}

function request(object: unknown, more: Partial<AdmissionRequest> = {}): AdmissionRequest {
  return { uid: 'u', operation: 'CREATE', resource: 'pods', subresource: '', namespace: 'team', name: 'p', object, oldObject: null, dryRun: false, ...more };
}

describe('Reviewer', () => {
  test('changes the image, counts the decision and logs one line with the uid', async () => {
    const { reviewer, lines, counted } = make();
    const ops = await reviewer.review(request(makePod({ app: SOURCE })));
    expect(ops[0]).toEqual({ op: 'replace', path: '/spec/containers/0/image', value: VARIANT });
    expect(await counted('accelerated')).toBe(1);
    expect(lines.filter((l) => l.msg === 'images changed')).toMatchObject([{ uid: 'u', namespace: 'team' }]);
  });

  test.each<[string, World, Partial<AdmissionRequest>]>([
    ['mode Off', { config: { mode: 'Off' } }, {}],
    ['an update', {}, { operation: 'UPDATE' }],
    ['another resource', {}, { resource: 'deployments' }],
    ['a subresource', {}, { subresource: 'ephemeralcontainers' }],
    ['caches that are not filled', { problem: 'policies: not listed yet' }, {}],
    ['a namespace that is not known', { absent: true }, {}],
    ['a namespace without the label', { labels: {} }, {}],
    [
      'a namespace that is labelled otherwise',
      { config: { scope: 'AllNamespaces' }, labels: { 'harbinger.dev/accelerate': 'disabled' } },
      {},
    ],
    ['an object that is no Pod', {}, { object: 'x' }],
    ['a Pod without spec', {}, { object: { metadata: {} } }],
  ])('asks and changes nothing: %s', async (_, world, more) => {
    const { reviewer, asked } = make(world);
    expect(await reviewer.review(request(makePod({ app: SOURCE }), more))).toEqual([]);
    expect(asked).toEqual([]);
  });

  test('scope AllNamespaces needs no label', async () => {
    const { reviewer } = make({ config: { scope: 'AllNamespaces' }, labels: {} });
    expect(await reviewer.review(request(makePod({ app: SOURCE })))).not.toEqual([]);
  });

  test('mode Observe decides, counts and logs, and changes nothing', async () => {
    const { reviewer, counted, lines } = make({ config: { mode: 'Observe' } });
    expect(await reviewer.review(request(makePod({ app: SOURCE })))).toEqual([]);
    expect([await counted('accelerated'), lines.at(-1)?.msg]).toEqual([1, 'images would be changed']);
  });

  test('a Pod that opted out loses foreign decisions and nothing else; a mirror Pod not even those', async () => {
    const { reviewer, asked, counted } = make();
    const optedOut = { 'harbinger.dev/accelerate': 'false', 'harbinger.dev/decisions': 'x' };
    const mirror = { 'kubernetes.io/config.mirror': 'x', 'harbinger.dev/decisions': 'x' };
    expect(await reviewer.review(request(makePod({ app: SOURCE }, { annotations: optedOut })))).toMatchObject([{ op: 'remove' }]);
    expect(await reviewer.review(request(makePod({ app: SOURCE }, { annotations: mirror })))).toEqual([]);
    expect([asked, await counted('skipped-opt-out'), await counted('skipped-mirror-pod')]).toEqual([[], 1, 1]);
  });

  test('looks up the record of the gang by the owner in the namespace of the request', async () => {
    const pinned = `r.example/app@${DIGEST}`;
    const { reviewer, looked, asked } = make({ records: [makeRecord(SOURCE, pinned)] });
    const owned = makePod({ app: SOURCE }, { ownerReferences: [{ uid: 'job-uid', controller: true }], namespace: 'elsewhere' });
    expect((await reviewer.review(request(owned)))[0]).toMatchObject({ value: pinned });
    expect([looked, asked]).toEqual([['team/job-uid'], []]);
  });

  test('a second call of an unchanged Pod counts as already accelerated', async () => {
    const { reviewer, counted } = make();
    const claim = JSON.stringify([{ container: 'app', source: SOURCE, image: VARIANT }]);
    await reviewer.review(request(makePod({ app: VARIANT }, { annotations: { 'harbinger.dev/decisions': claim } })));
    expect([await counted('already-accelerated'), await counted('accelerated')]).toEqual([1, 0]);
  });
});
