import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isTrue } from '../../cluster/client.js';
import { notYet, until } from '../../cluster/until.js';
import { CHECK, NS, PREWARM, PULLER, QUEUE, SYSTEM, WORKLOAD } from '../../integration/controller/ground.js';
import { settled, type Raw } from '../invariants/index.js';
import { Driver } from './driver.js';
import { QUOTA, startGround, workloads, type Ground } from './ground.js';
import { Replicas } from './processes.js';
import { Recorder } from './recorder.js';
import { EVENT_KINDS, schedule } from './schedule.js';
import { holdOf } from './truth.js';
import { judge } from './verdict.js';

const KINDS = ['batch/v1/Job', WORKLOAD, PREWARM, 'v1/Pod', 'v1/Node', 'apps/v1/DaemonSet', 'coordination.k8s.io/v1/Lease'];

/** `CHAOS_SEEDS=3` runs seeds 1 to 3, `CHAOS_SEEDS=7,8` those two. */
function seeds(text = process.env['CHAOS_SEEDS'] ?? ''): number[] {
  if (text.includes(',')) return text.split(',').map(Number);
  return Array.from({ length: Number(text === '' ? '5' : text) }, (_, i) => i + 1);
}

/** Real processes, random faults, and the promises as the only judge. */
describe('a cluster in which everything fails now and then', () => {
  let ground: Ground;
  let controllers: Replicas;
  let webhooks: Replicas;
  const keeping = new AbortController();
  let kept: Promise<unknown>;
  const seenKinds = new Set<string>();
  const letGo = new Map<string, number>();

  beforeAll(async () => {
    ground = await startGround();
    const { cluster, harbinger } = ground;
    controllers = new Replicas(cluster, harbinger.controllers, { spareOne: false });
    webhooks = new Replicas(cluster, harbinger.webhooks, { spareOne: true });
    kept = Promise.all([controllers.keep(keeping.signal), webhooks.keep(keeping.signal)]);
  }, 300_000);
  afterAll(async () => {
    keeping.abort();
    await kept?.catch(() => undefined);
    await ground?.door.close();
    await ground?.cluster.stop();
  }, 60_000);

  test.each(seeds())(
    'seed %i: the promises hold, everybody is served, and nothing is left over',
    async (seed) => {
      const { cluster } = ground;
      const since = Date.now();
      const recorder = new Recorder(cluster.client, cluster.fakeNodes, KINDS);
      const driver = new Driver({ ground, recorder, controllers, webhooks, seed });
      try {
        await driver.run(schedule(seed));
        await driver.healAll();
        recorder.note('all healed');
        await comesToRest();
        await everybodyRuns();
        recorder.note('all have run');
        await nothingIsLeft(driver.gangs);
      } catch (error) {
        keepRecord(seed, recorder);
        await driver.healAll();
        // The next seed begins with nothing, whatever became of this one.
        await quota(QUOTA);
        await nothingIsLeft(driver.gangs).catch(() => undefined);
        throw error;
      } finally {
        await recorder.stop();
      }

      const verdict = judge(recorder.seen, cluster.audit, since);
      const events = [...driver.done.values()].reduce((a, b) => a + b, 0);
      for (const kind of driver.done.keys()) seenKinds.add(kind);
      const seconds = Math.round((Date.now() - since) / 1000);
      const { releases, changes, pulls, failedOpen } = verdict;
      for (const [cause, count] of Object.entries(releases)) letGo.set(cause, (letGo.get(cause) ?? 0) + count);
      console.log(
        `seed ${seed}: ${events} events, ${driver.gangs.length} gangs, ${changes} changes and ${pulls} pulls seen in ${seconds} s, ${failedOpen} Pods not read; releases ${JSON.stringify(releases)}`,
      );
      if (verdict.violations.length > 0) keepRecord(seed, recorder);
      expect(verdict.violations).toEqual([]);
      expect(events).toBeGreaterThanOrEqual(30);
    },
    420_000,
  );

  test('the control: over all seeds every kind of event has hit something', () => {
    if (seeds().length >= 5) expect([...seenKinds].sort()).toEqual([...EVENT_KINDS].sort());
  });

  test('the control: over all seeds gangs were let go warm, and for want of time', () => {
    const sum = (...causes: string[]): number => causes.reduce((n, cause) => n + (letGo.get(cause) ?? 0), 0);
    if (seeds().length < 5) return;
    expect(sum('WarmVerified')).toBeGreaterThan(0);
    expect(sum('DeadlineExceeded', 'Watchdog')).toBeGreaterThan(0);
  });

  /** What a failed seed was, for whoever looks into it. */
  function keepRecord(seed: number, recorder: Recorder): void {
    const file = join(ground.cluster.logDir, `seed-${seed}.jsonl`);
    writeFileSync(file, recorder.seen.map((s) => JSON.stringify(s)).join('\n'));
    console.log(`everything that was seen stands in ${file}`);
  }

  async function objects(): Promise<Raw[]> {
    const { client } = ground.cluster;
    const lists = [
      ['batch/v1/Job', NS],
      [WORKLOAD, NS],
      [PREWARM, NS],
      ['apps/v1/DaemonSet', SYSTEM],
    ] as const;
    const all = await Promise.all(lists.map(([kind, namespace]) => client.list(kind, { namespace })));
    return all.flat();
  }

  /** Nobody waits in vain, nothing is missing, nothing is pulled that nobody wants (P7). */
  async function comesToRest(): Promise<void> {
    await until(
      'everything to come to rest',
      async () => {
        const all = await objects();
        const jobs = new Map(all.filter((o) => o.kind === 'Job').map((j) => [j.metadata.uid, j]));
        const optedIn = (workload: Raw): boolean => {
          const job = jobs.get(workload.metadata.ownerReferences?.[0]?.uid);
          return job !== undefined && holdOf(job) !== undefined;
        };
        const left = settled({ objects: all, now: Date.now(), checks: new Set([CHECK]), optedIn });
        return left.length === 0 || notYet(left.map((v) => `${v.object}: ${v.message}`));
      },
      { timeoutMs: 90_000, everyMs: 500 },
    );
  }

  const quota = (cpu: string): Promise<unknown> =>
    ground.cluster.client.patch('kueue.x-k8s.io/v1beta2/ClusterQueue', QUEUE, {
      spec: {
        resourceGroups: [
          { coveredResources: ['cpu'], flavors: [{ name: QUEUE, resources: [{ name: 'cpu', nominalQuota: cpu }] }] },
        ],
      },
    });

  /** With quota for all, every gang runs to its end: no hold outlives its bound (P5). */
  async function everybodyRuns(): Promise<void> {
    await quota('40');
    await until(
      'every gang to have run',
      async () => {
        const waiting = (await workloads(ground)).filter((w) => !isTrue(w, 'Finished'));
        return waiting.length === 0 || notYet(waiting.map((w) => [w.metadata.name, w['status']]));
      },
      { timeoutMs: 120_000, everyMs: 500 },
    );
    await quota(QUOTA);
  }

  async function nothingIsLeft(gangs: readonly string[]): Promise<void> {
    const { client } = ground.cluster;
    for (const name of gangs) await client.delete('batch/v1/Job', `${NS}/${name}`);
    await until(
      'nothing to be left of the gangs',
      async () => {
        const pods = await client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
        const left = [...(await objects()), ...pods];
        return left.length === 0 || notYet(left.map((o) => `${o.kind} ${o.metadata.name}`));
      },
      { timeoutMs: 60_000, everyMs: 500 },
    );
  }
});
