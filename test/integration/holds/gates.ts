import { describe, expect, test } from '@jest/globals';
import type { Raw } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';
import type { Ran } from '../cli/ground.js';
import { admitted, gang, NS, prewarm, pushImage, removeJob, reserved, workloadOf } from '../controller/ground.js';

export const GATES = 'kueue.x-k8s.io/admission-gated-by';
export const OURS = 'harbinger.dev/image-prewarm';
const JOB = 'batch/v1/Job';
/** Workloads of such a job are slices, of which Kueue changes nothing but counts (ElasticJobsViaWorkloadSlices, on by default since 0.18). */
export const ELASTIC = { 'kueue.x-k8s.io/elastic-job': 'true' };

export interface GateGround {
  cluster: () => Cluster;
  /** As a person who may list and patch Workloads and jobs of the namespace. */
  kubectl: (args: readonly string[]) => Promise<Ran>;
}

/** Gates on jobs, in the cluster of the file that calls this, with its queue `free` and a pull that ends on no node. */
export function gateCases({ cluster, kubectl }: GateGround): void {
  describe('without quota, by a gate on its job', () => {
    /** A job that Kueue does not look at before its gates are off. */
    async function gated(
      name: string,
      options: { gates?: string; hold?: string; optIn?: boolean; elastic?: boolean } = {},
    ): Promise<Raw> {
      const { gates = OURS, hold, optIn = true, elastic = false } = options;
      const { image } = await pushImage(cluster(), name);
      const job = gang(name, image, {
        pods: 2,
        queue: 'free',
        jobAnnotations: { [GATES]: gates, ...(optIn ? prewarm(hold) : {}), ...(elastic ? ELASTIC : {}) },
      });
      return cluster().client.create(job);
    }
    const gatesOf = async (name: string): Promise<string | undefined> =>
      (await cluster().client.get(JOB, `${NS}/${name}`)).metadata.annotations?.[GATES];
    const eventOn = (job: Raw, reason: string): Promise<Raw> =>
      until(`event ${reason} on Job ${job.metadata.name}`, async () => {
        const events = await cluster().client.list('events.k8s.io/v1/Event', { namespace: NS });
        const mine = events.filter((e) => e['regarding'].uid === job.metadata.uid);
        return mine.find((e) => e['reason'] === reason) ?? notYet(mine.map((e) => [e['reason'], e['note']]));
      });

    test('holds no quota, is stamped first, and is let go by its deadline', async () => {
      const job = await gated('gated', { hold: '20s' });
      const workload = await workloadOf(
        cluster(),
        'gated',
        (w) => w.metadata.annotations?.['harbinger.dev/gate-deadline'] !== undefined,
      );
      expect(reserved(workload)).toBe(false);
      const deadline = Date.parse(workload.metadata.annotations?.['harbinger.dev/gate-deadline'] ?? '');
      expect(deadline - Date.parse(job.metadata.creationTimestamp ?? '')).toBe(20_000);
      await workloadOf(cluster(), 'gated', admitted, 60_000);
      expect(Date.now()).toBeGreaterThanOrEqual(deadline);
      expect((await eventOn(job, 'UngatedDeadlineExceeded'))['note']).toMatch(/^timed out, queued with cold nodes: /);
      await removeJob(cluster(), 'gated');
    }, 150_000);

    const rows: [string, string, string, () => Promise<unknown>][] = [
      ['its deadline', 'elastic', '20s', () => Promise.resolve()],
      [
        'a person',
        'elastic-by-hand',
        '10m',
        async () => {
          const { code, out } = await kubectl(['harbinger', 'release', 'job/elastic-by-hand', '-n', NS, '--wait']);
          expect([code, out]).toEqual([0, expect.stringMatching(/^released {2}team\/Job\/elastic-by-hand: gated without /)]);
        },
      ],
    ];
    test.each(rows)(
      'is let go by %s where Kueue does not copy the list of the job, which is elastic',
      async (_title, name, hold, cause) => {
        await gated(name, { hold, elastic: true });
        const stamped = (w: Raw): boolean => w.metadata.annotations?.['harbinger.dev/gate-deadline'] !== undefined;
        const workload = await workloadOf(cluster(), name, stamped);
        expect(workload.metadata.annotations).toMatchObject({ ...ELASTIC, [GATES]: OURS });
        expect(reserved(workload)).toBe(false);
        await cause();
        const free = await workloadOf(cluster(), name, admitted, 60_000);
        expect([free.metadata.uid, free.metadata.annotations?.[GATES]]).toEqual([workload.metadata.uid, undefined]);
        expect(await gatesOf(name)).toBeUndefined();
        await until(`Job ${name} to run`, async () => {
          const { suspend } = (await cluster().client.get(JOB, `${NS}/${name}`))['spec'];
          return suspend === false || notYet({ suspend });
        });
        await removeJob(cluster(), name);
      },
      200_000,
    );

    test('leaves the names of others on the list, also when it was never opted in', async () => {
      const job = await gated('shared', { gates: `example.com/other,${OURS}`, optIn: false });
      await eventOn(job, 'UngatedOptedOut');
      expect(await gatesOf('shared')).toBe('example.com/other');
      expect(reserved(await workloadOf(cluster(), 'shared'))).toBe(false);
      await removeJob(cluster(), 'shared');
    }, 150_000);

    test('is let go by whoever may patch the job', async () => {
      await gated('impatient', { hold: '10m' });
      await workloadOf(cluster(), 'impatient', (w) => w.metadata.annotations?.['harbinger.dev/gate-deadline'] !== undefined);
      const { code, out } = await kubectl(['harbinger', 'release', 'job/impatient', '-n', NS, '--wait']);
      expect([code, out]).toEqual([0, expect.stringMatching(/^released {2}team\/Job\/impatient: gated without quota by /)]);
      await workloadOf(cluster(), 'impatient', admitted);
      await removeJob(cluster(), 'impatient');
    }, 150_000);
  });
}
