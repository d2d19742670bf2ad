import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { Answer, Question, Verdict } from '../../../src/rewrite/decide.js';
import type { GangRecord } from '../../../src/rewrite/record.js';
import type { AdmissionRequest } from '../../../src/webhook/admission-review.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { Reviewer } from '../../../src/webhook/reviewer.js';
import { keepLog } from '../kube/fake-clock.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord } from '../rewrite/builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const SECRET = { username: 'tenant', password: 'hunter2-very-secret' };

interface World {
  config?: Partial<HarbingerConfig>;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  problem?: string;
  absent?: boolean;
  records?: GangRecord[];
  credentialProblem?: string;
  answer?: Answer;
  /** Answers never come. */
  silent?: boolean;
  failed?: string;
  policies?: ReturnType<typeof makePolicy>[];
  /** Milliseconds that reading the namespace takes. */
  namespaceMs?: number;
}

function make(world: World = {}) {
  const asked: string[] = [];
  const budgets: (number | undefined)[] = [];
  let now = 5;
  const looked: string[] = [];
  const { log, lines } = keepLog();
  const metrics = new Metrics();
  const facts = {
    problem: world.problem,
    policies: world.policies ?? [makePolicy('p')],
    namespace: (name: string, ms?: number) => {
      budgets.push(ms);
      now += world.namespaceMs ?? 0;
      return Promise.resolve(
        world.absent === true
          ? undefined
          : { name, labels: world.labels ?? { 'harbinger.dev/accelerate': 'enabled' }, annotations: world.annotations ?? {} },
      );
    },
    records: (namespace: string, uids: readonly string[]) => {
      looked.push(...uids.map((uid) => `${namespace}/${uid}`));
      return uids.length > 0 ? (world.records ?? []) : [];
    },
    landing: () => ({ platforms: undefined, now: {}, later: {}, key: 'somewhere' }),
    quarantine: (namespace: string) =>
      world.failed === undefined
        ? undefined
        : { key: namespace, messageOf: (image: string) => (image === world.failed ? `${namespace} cannot pull it` : undefined) },
  };
  const tallied: Verdict[] = [];
  const tallies = { count: (verdicts: readonly Verdict[]) => void tallied.push(...verdicts) };
  const secretsOf: string[] = [];
  const credentials = {
    of: (namespace: string, _pod: unknown, ms: number) => {
      secretsOf.push(namespace);
      budgets.push(ms);
      return Promise.resolve({
        chainFor: () => [SECRET, undefined],
        problem: world.credentialProblem,
        doubt: () => void secretsOf.push('doubt'),
      });
    },
  };
  const answers = {
    ask: (questions: readonly Question[], ms: number): Promise<Map<string, Answer>> => {
      asked.push(...questions.map((q) => q.key));
      budgets.push(ms);
      if (world.silent === true) return Promise.resolve(new Map());
      return Promise.resolve(
        new Map(
          questions.map((q) => [q.key, world.answer ?? { outcome: 'accelerated', image: VARIANT, format: 'estargz' }] as const),
        ),
      );
    },
  };
  const config = { ...defaultConfig(), ...world.config };
  const reviewer = new Reviewer({
    config: () => config,
    facts,
    answers,
    credentials,
    coverage: { nodesWith: () => ['node-1'] },
    tallies,
    metrics: new AdmissionMetrics(metrics, () => 0),
    monotonic: () => now,
    log,
  });
  const counted = async (outcome: string): Promise<number> => {
    const all = (await metrics.text())
      .split('\n')
      .filter((l) => l.startsWith('harbinger_admission_decisions_total{') && l.includes(`outcome="${outcome}"`));
    return all.reduce((sum, l) => sum + Number(l.split(' ').at(-1)), 0);
  };
  return { reviewer, asked, looked, lines, counted, tallied, secretsOf, metrics, budgets };
}

function request(object: unknown, more: Partial<AdmissionRequest> = {}): AdmissionRequest {
  return {
    uid: 'u',
    operation: 'CREATE',
    resource: 'pods',
    subresource: '',
    namespace: 'team',
    name: 'p',
    object,
    oldObject: null,
    dryRun: false,
    ...more,
  };
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
    const owned = makePod(
      { app: SOURCE },
      { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', uid: 'job-uid', controller: true }], namespace: 'elsewhere' },
    );
    expect((await reviewer.review(request(owned)))[0]).toMatchObject({ value: pinned });
    expect([looked, asked]).toEqual([['team/job-uid'], []]);
  });

  test('a second call of an unchanged Pod counts as already accelerated', async () => {
    const { reviewer, counted } = make();
    const claim = JSON.stringify([{ container: 'app', source: SOURCE, image: VARIANT }]);
    await reviewer.review(request(makePod({ app: VARIANT }, { annotations: { 'harbinger.dev/decisions': claim } })));
    expect([await counted('already-accelerated'), await counted('accelerated')]).toEqual([1, 0]);
  });

  test('a second call that gets no answer keeps what the first wrote, and counts as what kept it from confirming', async () => {
    const { reviewer, counted, tallied, lines } = make({ silent: true });
    const claim = JSON.stringify([{ container: 'app', source: SOURCE, image: VARIANT, outcome: 'accelerated' }]);
    const ops = await reviewer.review(request(makePod({ app: VARIANT }, { annotations: { 'harbinger.dev/decisions': claim } })));
    expect(ops.map((op) => op.path)).toEqual(['/metadata/annotations/harbinger.dev~1decisions']);
    const counts = ['budget-exceeded', 'accelerated', 'already-accelerated'].map(counted);
    expect(await Promise.all(counts)).toEqual([1, 0, 0]);
    expect([tallied.map((v) => v.already), lines.some((l) => l.msg === 'images changed')]).toEqual([[true], false]);
  });

  test('an opt-out since the first call brings the source back, and counts as the opt-out', async () => {
    const { reviewer, counted, lines } = make();
    const claim = JSON.stringify([{ container: 'app', source: SOURCE, image: VARIANT, outcome: 'accelerated' }]);
    const annotations = { 'harbinger.dev/decisions': claim, 'harbinger.dev/accelerate': 'false' };
    const labels = { 'harbinger.dev/accelerated': 'true' };
    const ops = await reviewer.review(request(makePod({ app: VARIANT }, { annotations, labels })));
    expect(ops.map((op) => [op.op, op.path])).toEqual([
      ['replace', '/spec/containers/0/image'],
      ['remove', '/metadata/annotations/harbinger.dev~1decisions'],
      ['remove', '/metadata/labels/harbinger.dev~1accelerated'],
    ]);
    expect([await counted('skipped-opt-out'), await counted('accelerated')]).toEqual([1, 0]);
    expect(lines.filter((l) => l.msg === 'images changed')).toHaveLength(1);
  });

  test.each<[string, string | undefined, string]>([
    ['gives a member its variant', undefined, 'accelerated'],
    ['gives it the source while nodes of the namespace fail to pull the variant', VARIANT, 'pinned'],
  ])('the record of a gang, also without any policy, %s', async (_, failed, outcome) => {
    const records = [makeRecord(SOURCE, VARIANT, 'accelerated', { format: 'nydus', portable: false })];
    const { reviewer, asked } = make({ records, policies: [], ...(failed === undefined ? {} : { failed }) });
    const owner = { apiVersion: 'batch/v1', kind: 'Job', uid: 'job-uid', controller: true };
    const ops = await reviewer.review(request(makePod({ app: SOURCE }, { ownerReferences: [owner] })));
    expect(ops[0]).toMatchObject({ value: failed === undefined ? VARIANT : `r.example/app@${DIGEST}` });
    expect([asked, JSON.stringify(ops).includes(`\\"outcome\\":\\"${outcome}\\"`)]).toEqual([[], true]);
  });

  test.each([
    [0, [1_000, 500, 1_000]],
    [300, [1_000, 350, 700]],
    [1_200, [1_000, 0, 0]],
  ])('reading the namespace for %i ms counts against the budget', async (namespaceMs, want) => {
    const defaults = defaultConfig();
    const config = {
      budgets: { ...defaults.budgets, admissionMs: 1_000 },
      rewrite: { ...defaults.rewrite, podSecrets: 'WhereAllowed' as const },
    };
    const { reviewer, budgets } = make({ config, namespaceMs });
    await reviewer.review(request(makePod({ app: SOURCE })));
    expect(budgets).toEqual(want);
  });

  test('a dry run gets the same patch and is not counted into the status of the policy', async () => {
    const real = make();
    const dry = make();
    const wanted = await real.reviewer.review(request(makePod({ app: SOURCE })));
    expect(await dry.reviewer.review(request(makePod({ app: SOURCE }), { dryRun: true }))).toEqual(wanted);
    expect([real.tallied.length, dry.tallied.length]).toEqual([1, 0]);
  });

  describe('containers that an update adds', () => {
    const old = makePod({ app: SOURCE }, {}, { ephemeralContainers: [{ name: 'before', image: SOURCE }] });
    const now = structuredClone(old);
    (now.spec['ephemeralContainers'] as unknown[]).push({ name: 'debugger', image: SOURCE });
    const update = (more: Partial<AdmissionRequest> = {}): AdmissionRequest =>
      request(now, { operation: 'UPDATE', subresource: 'ephemeralcontainers', oldObject: old, ...more });
    const optedIn = { config: { rewrite: { ...defaultConfig().rewrite, ephemeralContainers: true } } };

    test('are left where nobody asked for them to be changed', async () => {
      const { reviewer, asked } = make();
      expect([await reviewer.review(update()), asked]).toEqual([[], []]);
    });

    test('get a variant, they alone, and the subresource gets no annotation', async () => {
      const { reviewer } = make(optedIn);
      expect(await reviewer.review(update())).toEqual([
        { op: 'replace', path: '/spec/ephemeralContainers/1/image', value: VARIANT },
      ]);
    });

    test('are never pinned, and count whoever owns the Pod', async () => {
      const owned = { ownerReferences: [{ apiVersion: 'x.example/v1', kind: 'Thing', uid: 'u', controller: true }] };
      const { reviewer, looked } = make({ ...optedIn, records: [makeRecord(SOURCE, `r.example/app@${DIGEST}`)] });
      const owner = structuredClone(now);
      Object.assign(owner.metadata, owned);
      expect(await reviewer.review(update({ object: owner }))).toMatchObject([{ value: VARIANT }]);
      expect(looked).toEqual([]);
    });

    test.each<[string, Partial<AdmissionRequest>]>([
      ['that adds none', { object: old }],
      ['of the Pod itself', { subresource: '' }],
      ['of its status', { subresource: 'status' }],
      ['of something without a spec', { object: { metadata: {} } }],
    ])('an update %s changes nothing', async (_, more) => {
      const { reviewer, asked } = make(optedIn);
      expect([await reviewer.review(update(more)), asked]).toEqual([[], []]);
    });

    test('of a Pod that opted out are left', async () => {
      const out = structuredClone(now);
      out.metadata['annotations'] = { 'harbinger.dev/accelerate': 'false', 'harbinger.dev/decisions': 'x' };
      expect(await make(optedIn).reviewer.review(update({ object: out }))).toEqual([]);
    });
  });

  describe('pull secrets of Pods', () => {
    const allowed = { config: { rewrite: { ...defaultConfig().rewrite, podSecrets: 'WhereAllowed' as const } } };

    test('are not read unless the configuration says so', async () => {
      const { reviewer, secretsOf } = make();
      await reviewer.review(request(makePod({ app: SOURCE })));
      expect(secretsOf).toEqual([]);
    });

    test('are not read for Pods that no policy is about', async () => {
      const { reviewer, secretsOf } = make(allowed);
      const pod = makePod({ app: SOURCE }, { annotations: { 'harbinger.dev/skip-containers': 'app' } });
      await reviewer.review(request(pod));
      expect(secretsOf).toEqual([]);
    });

    test('make a question of their own, and reach neither log nor patch nor metrics', async () => {
      const { reviewer, secretsOf, asked, lines, metrics } = make({
        ...allowed,
        answer: { outcome: 'auth-denied', message: 'denied' },
      });
      const ops = await reviewer.review(request(makePod({ app: SOURCE })));
      expect([secretsOf, asked.length]).toEqual([['team', 'doubt'], 1]);
      expect(asked[0]).not.toMatch(/ -$/);
      const everything = JSON.stringify([ops, lines, asked]) + (await metrics.text());
      // Positive control: the decision is in there.
      expect(everything).toContain('auth-denied');
      for (const part of [SECRET.username, SECRET.password, Buffer.from(SECRET.password).toString('base64')])
        expect(everything).not.toContain(part);
    });

    test('that could not be read are told where the registry denied the image', async () => {
      const problem = 'Secret team/pull does not exist';
      const denied = make({
        ...allowed,
        credentialProblem: problem,
        answer: { outcome: 'auth-denied', message: 'r.example: 401' },
      });
      const [op] = await denied.reviewer.review(request(makePod({ app: SOURCE })));
      expect(JSON.stringify(op)).toContain(`r.example: 401; ${problem}`);
      const served = make({ ...allowed, credentialProblem: problem });
      expect(JSON.stringify(await served.reviewer.review(request(makePod({ app: SOURCE }))))).not.toContain(problem);
    });
  });
});
