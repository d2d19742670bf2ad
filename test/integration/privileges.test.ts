import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { JOB_KINDS } from '../../src/gangs/kinds.js';
import { GRANTS, type Grants, type Rule } from '../../tools/generate/rbac.js';
import type { AuditEvent } from '../cluster/audit.js';
import { ClusterClient, isTrue, type ApiError, type Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import { notYet, until } from '../cluster/until.js';
import { knobNames } from '../doubles/fake-kubelet/index.js';
import {
  admitted,
  CHECK,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersGone,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  runningPods,
  SYSTEM,
  workloadOf,
} from './controller/ground.js';

/** Kinds of jobs that this cluster does not serve, or of which no Workload tells: gangs.test.ts follows some of them. */
const OTHER_JOBS = JOB_KINDS.filter((k) => k.group !== '').flatMap((k) =>
  ['list', 'watch', ...(k.shape === undefined ? [] : ['get'])]
    .filter((verb) => k.kind !== 'Job' || verb === 'get')
    .map((verb) => [`harbinger-controller ${verb} ${k.group}/${k.plural}`, 'a gang of this kind']),
);

/** Rights that the loop of this test need not use, with what does; each other right has to be seen in the audit log. */
const SPARED: Readonly<Record<string, string>> = {
  ...(Object.fromEntries(OTHER_JOBS) as Record<string, string>),
  'harbinger-webhook get namespaces': 'a Pod that comes in before the watch event of its new namespace',
  'harbinger-webhook patch secrets': 'a new certificate authority after two thirds of the life of the old one',
  'harbinger-webhook patch events.k8s.io/events': 'the same hold ended more than once within minutes',
  'harbinger-controller patch events.k8s.io/events': 'the same thing told of one object more than once within minutes',
};

/** One verb of one rule. */
interface Right {
  /** `account verb [group/]resource[/subresource]`. */
  name: string;
  account: string;
  verb: string;
  rule: Rule;
  /** Only in the namespace of the installation. */
  own: boolean;
}

const rightsOf = ({ account, cluster, own }: Grants): Right[] =>
  [...cluster.map((rule) => ({ rule, own: false })), ...own.map((rule) => ({ rule, own: true }))].flatMap(
    ({ rule, own: inOwn }) =>
      rule.resources.flatMap((resource) =>
        rule.verbs.map((verb) => {
          const group = rule.apiGroups[0] ?? '';
          const name = `${account} ${verb} ${group === '' ? '' : `${group}/`}${resource}`;
          return { name, account, verb, rule: { ...rule, resources: [resource] }, own: inOwn };
        }),
      ),
  );

const RIGHTS = GRANTS.flatMap(rightsOf);
const userOf = (account: string): string => `system:serviceaccount:${SYSTEM}:${account}`;

/** A server-side apply that made its object took the right to create it too. */
const verbsOf = (event: AuditEvent): string[] =>
  event.verb === 'patch' && event.code === 201 ? ['patch', 'create'] : [event.verb];

function covers(right: Right, event: AuditEvent, verb: string): boolean {
  const { rule } = right;
  const resource = event.subresource === '' ? event.resource : `${event.resource}/${event.subresource}`;
  const named = rule.resourceNames === undefined || rule.resourceNames.includes(event.name);
  const where = !right.own || event.namespace === SYSTEM;
  return (
    userOf(right.account) === event.user &&
    right.verb === verb &&
    rule.apiGroups.includes(event.apiGroup) &&
    rule.resources.includes(resource) &&
    named &&
    where
  );
}

/** What the API server serves: ClusterRole system:discovery of Kubernetes lets every account ask. */
const isDiscovery = ({ verb, resource, uri }: AuditEvent): boolean => verb === 'get' && resource === '' && /^\/apis?\b/.test(uri);

/** Promise: what is granted is what is needed. The API server's audit log says what was used. */
describe('least privilege', () => {
  let cluster: Cluster;
  /** All calls of both accounts, once the loop has run. */
  let calls: AuditEvent[];

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-privileges', kueue: true, nodes: { fake: 2 }, say: () => undefined });
    await cluster.client.apply(namespace);
    const harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { budgets: { tagRecheckSeconds: 1 }, nodes: { steer: 'Preferred' } },
    });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '4' }, checks: [CHECK] });
    await checksAndPolicies();
    await counted();
    await byHand();
    await held('warmed', '10m', async (end) => {
      await end();
      await runningPods(cluster, 'warmed', 2);
    });
    await moved();
    await held('orphaned', '20s', async (end) => {
      await harbinger.controllers[0]?.kill();
      await workloadOf(cluster, 'orphaned', admitted, 90_000);
      await until('the event of the watchdog', async () => {
        const events = await cluster.client.list('events.k8s.io/v1/Event', { namespace: NS });
        return events.some((e) => e['reportingController'] === 'harbinger.dev/webhook') || notYet(events.map((e) => e['reason']));
      });
      await end();
    });
    calls = GRANTS.flatMap(({ account }) => cluster.audit.query({ user: userOf(account), stage: 'any' }));
  }, 600_000);
  afterAll(async () => cluster?.stop());

  async function checksAndPolicies(): Promise<void> {
    const spec = { match: { images: ['*'] }, variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }] };
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'AccelerationPolicy',
      metadata: { name: 'all' },
      spec,
    });
    await cluster.client.watchUntil('kueue.x-k8s.io/v1beta2/AdmissionCheck', CHECK, (c) => isTrue(c, 'Active'));
  }

  /** A Pod that the policy decides about: the webhook counts it in the policy's status. */
  async function counted(): Promise<void> {
    const spec = { schedulerName: 'nobody', containers: [{ name: 'app', image: 'nothing:v1' }] };
    const admit = (name: string): Promise<Raw> =>
      cluster.client.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: NS }, spec });
    await until(
      'the count of the policy',
      async () => {
        const { status } = await cluster.client.get('harbinger.dev/v1alpha1/AccelerationPolicy', 'all');
        if (status?.decisions?.left > 0) return true;
        // The policy may be younger than what the webhook knows.
        await admit(`counted-${Date.now()}`);
        return notYet(status);
      },
      { everyMs: 1_000 },
    );
  }

  /** A prewarm whose time is over when it is warm: it is deleted. */
  async function byHand(): Promise<void> {
    const { image } = await pushImage(cluster, 'by-hand');
    const targets = [{ name: 'main', images: [{ reference: image }], nodes: { names: ['fake-1'] } }];
    const metadata = { name: 'by-hand', namespace: NS };
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata,
      spec: { targets, ttlSecondsAfterFinished: 0 },
    });
    await cluster.client.untilGone(PREWARM, `${NS}/by-hand`);
  }

  /** A gang that waits for more than there is, whose tag moves meanwhile: before its record changes the Workload is asked for. */
  async function moved(): Promise<void> {
    const { image, digest } = await pushImage(cluster, 'moved');
    await cluster.client.create(gang('moved', image, { pods: 2, cpu: '2', annotations: prewarm() }));
    await prewarmOf(cluster, 'moved', ready);
    await pushImage(cluster, 'moved', { seed: 'moved again' });
    await prewarmOf(cluster, 'moved', (p) => p['status'].targets[0].images[0].digest !== digest, 60_000);
    await removeJob(cluster, 'moved');
  }

  /** A gang that is held with quota while no pull ends; `end` lets them end. */
  async function held(name: string, hold: string, body: (end: () => Promise<void>) => Promise<void>): Promise<void> {
    const every = (value: string | null): Promise<unknown> =>
      Promise.all(cluster.fakeNodes.names.map((n) => knob(cluster, n, knobNames.hang, value)));
    const { image, resolved } = await pushImage(cluster, name);
    await every('true');
    await cluster.client.create(gang(name, image, { pods: 2, annotations: prewarm(hold) }));
    await workloadOf(cluster, name, (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined);
    await body(() => every(null).then(() => undefined));
    if (name !== 'warmed') return;
    await prewarmOf(cluster, name, (p) => conditionOf(p, 'Released')?.status === 'True');
    await pullersGone(cluster, resolved);
  }

  test('no call was refused', () => {
    expect(calls.filter((e) => e.code === 403 || e.code === 401).map((e) => `${e.user} ${e.verb} ${e.uri}`)).toEqual([]);
  });

  test('no call needed more than what is granted', () => {
    const beyond = calls.filter((e) => !isDiscovery(e) && !verbsOf(e).every((verb) => RIGHTS.some((r) => covers(r, e, verb))));
    expect(beyond.map((e) => `${e.user} ${e.verb} ${e.uri}`)).toEqual([]);
  });

  test.each(GRANTS.map((g) => g.account))('every right of %s is used', (account) => {
    const asked = RIGHTS.filter((r) => r.account === account && !(r.name in SPARED));
    expect(asked.length).toBeGreaterThan(10);
    const unused = asked.filter((right) => !calls.some((e) => verbsOf(e).some((verb) => covers(right, e, verb))));
    expect(unused.map((r) => r.name)).toEqual([]);
  });

  test('the rights that are spared here are granted', () => {
    const names = RIGHTS.map((r) => r.name);
    expect(Object.keys(SPARED).filter((name) => !names.includes(name))).toEqual([]);
  });

  test('nothing was listed in one piece', () => {
    const lists = calls.filter((e) => e.verb === 'list');
    expect(lists.length).toBeGreaterThan(10);
    expect(lists.filter((e) => !e.uri.includes('limit=')).map((e) => e.uri)).toEqual([]);
  });

  test.each(GRANTS.map((g) => g.account))(
    'the control: %s is refused what it was not given, and the log tells',
    async (account) => {
      const client = new ClusterClient(await cluster.kubeconfigFor(account, SYSTEM));
      const error = await client.request('GET', `/api/v1/namespaces/${NS}/secrets`).catch((e: unknown) => e);
      client.close();
      expect((error as ApiError).status).toBe(403);
      const told = await until(
        'the refusal in the audit log',
        () => cluster.audit.query({ user: userOf(account), code: 403 })[0],
      );
      expect(RIGHTS.some((r) => covers(r, told, told.verb))).toBe(false);
    },
  );
});
