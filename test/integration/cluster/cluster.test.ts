import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isTrue, type Draft } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import { statePath } from '../../cluster/paths.js';
import { identityOf, isAlive, type ProcessIdentity } from '../../cluster/process-identity.js';
import { bundleProgram } from '../../cluster/program.js';
import type { ClusterState } from '../../cluster/supervisor/protocol.js';
import { notYet, until } from '../../cluster/until.js';

const START_TIMEOUT_MS = 300_000; // the first start on a machine builds the tools before it, in jest's global setup or by hand
const silent = (): void => undefined;
const WORKLOAD = 'kueue.x-k8s.io/v1beta2/Workload';

const job = (name: string, cpu: string): Draft => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace: 'default', labels: { 'kueue.x-k8s.io/queue-name': 'gang' } },
  spec: {
    suspend: true,
    template: {
      spec: {
        restartPolicy: 'Never',
        containers: [{ name: 'main', image: 'example.com/main:1', resources: { requests: { cpu } } }],
      },
    },
  },
});

const childrenOf = (path: string): ProcessIdentity[] => {
  const state = JSON.parse(readFileSync(path, 'utf8')) as ClusterState;
  return [state.supervisor, ...state.children];
};

describe('a test cluster', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-cluster', kueue: true, registry: false, say: silent });
    await cluster.kueueQueue({ quota: { cpu: '2' } });
  }, START_TIMEOUT_MS);
  afterAll(async () => cluster?.stop());

  const workloadOf = (jobName: string) =>
    until(`the Workload of ${jobName}`, async () => {
      const all = await cluster.client.list(WORKLOAD, { namespace: 'default' });
      return (
        all.find((w) => w.metadata.ownerReferences?.some((o) => o.name === jobName)) ?? notYet(all.map((w) => w.metadata.name))
      );
    });

  test('Kueue admits a Job that fits its quota and unsuspends it', async () => {
    await cluster.client.create(job('fits', '1'));
    const workload = await workloadOf('fits');
    await cluster.client.watchUntil(WORKLOAD, `default/${workload.metadata.name}`, (w) => isTrue(w, 'Admitted'));
    await cluster.client.watchUntil('batch/v1/Job', 'default/fits', (j) => j['spec'].suspend === false);
  });

  test('Kueue keeps a Job that does not fit', async () => {
    await cluster.client.create(job('too-big', '64'));
    const workload = await workloadOf('too-big');
    const pending = await cluster.client.watchUntil(WORKLOAD, `default/${workload.metadata.name}`, (w) =>
      Boolean(
        w['status']?.conditions?.some(
          (c: { type: string; status: string }) => c.type === 'QuotaReserved' && c.status === 'False',
        ),
      ),
    );
    expect(isTrue(pending, 'Admitted')).toBe(false);
    expect((await cluster.client.get('batch/v1/Job', 'default/too-big'))['spec'].suspend).toBe(true);
  });

  test('the audit log shows who did what, and a filter that matches nothing finds nothing', async () => {
    const created = { verb: 'create', resource: 'jobs', namespace: 'default', code: 201 };
    await until(
      'the creation in the audit log',
      () => cluster.audit.query({ ...created, user: 'admin' }).length > 0 || notYet(cluster.audit.query(created)),
    );
    expect(cluster.audit.query({ ...created, user: 'system:kueue' })).toEqual([]);
    expect(cluster.audit.query({ user: 'system:kueue', resource: 'workloads/status' }).length).toBeGreaterThan(0);
  });

  test('a token of a ServiceAccount has the rights of that account and no others', async () => {
    await cluster.client.apply([{ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'weak', namespace: 'default' } }]);
    const kubeconfig = await cluster.kubeconfigFor('weak', 'default');
    await expect(cluster.kubectl(['--kubeconfig', kubeconfig, 'get', 'nodes'])).rejects.toThrow(
      /system:serviceaccount:default:weak.*cannot list/,
    );
    await expect(cluster.kubectl(['get', 'nodes'])).resolves.toBeDefined();
    await until('the refusal in the audit log', () => cluster.audit.query({ user: 'default:weak', code: 403 }).length > 0);
  });

  test('the API server comes back on the same port with the same objects', async () => {
    await cluster.stopApiServer();
    await expect(cluster.client.get('v1/Namespace', 'default')).rejects.toThrow(/ECONNREFUSED|hang up|ECONNRESET/);
    await cluster.startApiServer();
    expect((await cluster.client.get('batch/v1/Job', 'default/too-big')).metadata.name).toBe('too-big');
  }, 240_000);

  test('a second cluster of the same name is refused while the first runs', async () => {
    await expect(Cluster.start({ name: 'it-cluster', say: silent })).rejects.toThrow(/runs already/);
  });

  test(
    'stopping leaves no process and no file behind, and the name can be used again',
    async () => {
      const { runDir, stateFile } = cluster;
      const before = childrenOf(stateFile);
      expect(before.length).toBeGreaterThanOrEqual(6);
      expect(before.every(isAlive)).toBe(true);
      await cluster.stop();
      expect(before.filter(isAlive)).toEqual([]);
      expect([existsSync(runDir), existsSync(stateFile)]).toEqual([false, false]);
      cluster = await Cluster.start({ name: 'it-cluster', kueue: { webhooks: true }, registry: false, say: silent });
      expect(await cluster.client.list('batch/v1/Job')).toEqual([]);
      // This one calls Kueue's webhooks: they suspend a Job that was not written so.
      await cluster.kueueQueue({ quota: { cpu: '2' } });
      const big = job('unsuspended', '64');
      await cluster.client.create({ ...big, spec: { ...(big['spec'] as object), suspend: false } });
      expect((await cluster.client.get('batch/v1/Job', 'default/unsuspended'))['spec'].suspend).toBe(true);
    },
    START_TIMEOUT_MS,
  );
});

describe('a cluster whose owner dies', () => {
  // The owner is a program of its own, so that it can be killed without ending the test.
  const startOwner = async (name: string): Promise<ProcessIdentity> => {
    const program = await bundleProgram('test/integration/cluster/owner.ts');
    const { NODE_OPTIONS: _, ...env } = process.env;
    const owner = spawn(process.execPath, [program, name], { stdio: 'ignore', env });
    return identityOf(owner.pid ?? 0);
  };
  const untilUp = (name: string): Promise<ClusterState> =>
    until(
      'the cluster of the owner',
      () => {
        if (!existsSync(statePath(name))) return notYet('no state file');
        const state = JSON.parse(readFileSync(statePath(name), 'utf8')) as ClusterState;
        return state.info['kubeconfig'] ? state : notYet(state.children.map((c) => c.name));
      },
      { timeoutMs: 120_000 },
    );

  test(
    'kill -9 of the owner ends every process of the cluster',
    async () => {
      const owner = await startOwner('it-orphan');
      const state = await untilUp('it-orphan');
      const all = [state.supervisor, ...state.children];
      expect(all.every(isAlive)).toBe(true);
      process.kill(owner.pid, 'SIGKILL');
      await until('all processes to end', () => !all.some(isAlive) || notYet(all.filter(isAlive)));
      expect(existsSync(statePath('it-orphan'))).toBe(false);
    },
    START_TIMEOUT_MS,
  );

  test(
    'after kill -9 of the supervisor the next start ends what it left',
    async () => {
      const owner = await startOwner('it-stale');
      const state = await untilUp('it-stale');
      process.kill(state.supervisor.pid, 'SIGKILL');
      await until('the supervisor to end', () => !isAlive(state.supervisor));
      // The negative twin: without a next start they stay, since nobody holds them any more.
      expect(state.children.every(isAlive)).toBe(true);
      process.kill(owner.pid, 'SIGKILL');
      const next = await Cluster.start({ name: 'it-next', registry: false, say: silent });
      await next.stop();
      expect(state.children.filter(isAlive)).toEqual([]);
      expect(existsSync(state.runDir)).toBe(false);
    },
    START_TIMEOUT_MS,
  );
});
