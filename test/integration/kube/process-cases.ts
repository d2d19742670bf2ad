import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { Lease } from '../../../src/kube/lease.js';
import { systemClock } from '../../../src/observe/clock.js';
import { bundleProgram } from '../../cluster/program.js';
import { notYet, until } from '../../cluster/until.js';
import { keepLog } from '../../unit/kube/fake-clock.js';
import { configMap, type Ground } from './ground.js';
import { LONG_LEASE, LOST_LEASE_EXIT, SHORT_LEASE } from './shared.js';

const OBJECTS = 20_000;
const OBJECT_BYTES = 4_096;
/** 80 MB of JSON text do not fit, one page of 2 MB does. */
const HEAP_MB = 64;

interface Child {
  process: ChildProcess;
  lines: string[];
  exited: Promise<number | string>;
}

function run(program: string, args: string[], nodeArgs: string[] = []): Child {
  const child = spawn(process.execPath, [...nodeArgs, program, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const exited = new Promise<number | string>((done) => child.on('close', (code, signal) => done(code ?? signal ?? 'gone')));
  return { process: child, lines, exited };
}

/** Creates the objects with bounded concurrency, straight at the API server. */
async function fill(ground: Ground, namespace: string): Promise<void> {
  const value = 'x'.repeat(OBJECT_BYTES);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < OBJECTS) await ground.cluster.client.create(configMap(namespace, `m${String(next++).padStart(5, '0')}`, value));
  };
  await Promise.all(Array.from({ length: 24 }, worker));
}

/** What needs whole processes: memory of their own, and a process that stops breathing. */
export function processCases(ground: () => Ground): void {
  let program: string;
  beforeAll(async () => (program = await bundleProgram('test/integration/kube/child.ts')), 60_000);

  describe('20,000 objects', () => {
    let namespace: string;
    beforeAll(async () => {
      namespace = await ground().namespace();
      await fill(ground(), namespace);
    }, 300_000);

    const bigList = async (project: 'slim' | 'whole'): Promise<Child> => {
      const kubeconfig = await ground().kubeconfig(namespace, 'direct');
      return run(program, ['big-list', kubeconfig, namespace, project], [`--max-old-space-size=${HEAP_MB}`]);
    };

    test('are listed page by page in bounded memory', async () => {
      const since = Date.now();
      const child = await bigList('slim');
      expect(await child.exited).toBe(0);
      const result = JSON.parse(child.lines.join('')) as { objects: number; seconds: number; peakRssBytes: number };
      console.log(
        `20,000 ConfigMaps of 4 KiB: ${result.seconds.toFixed(1)} s, peak RSS ${Math.round(result.peakRssBytes / 1e6)} MB`,
      );
      // kube-root-ca.crt is one more.
      expect(result.objects).toBe(OBJECTS + 1);
      expect(result.seconds).toBeLessThan(30);
      const pages = OBJECTS / 500 + 1;
      const query = { user: `${namespace}:tester`, verb: 'list', resource: 'configmaps', code: 200, since };
      const lists = await until('the audit log', () => {
        const found = ground().cluster.audit.query(query);
        return found.length >= pages ? found : notYet(found.length);
      });
      expect(lists).toHaveLength(pages);
      // Version 0 would make the API server ignore the limit.
      expect(lists.filter(({ uri }) => !uri.includes('limit=500') || uri.includes('resourceVersion=0'))).toEqual([]);
    }, 180_000);

    test('kept whole they do not fit, so the bound is one', async () => {
      const child = await bigList('whole');
      expect(await child.exited).not.toBe(0);
      expect(child.lines).toEqual([]);
    }, 180_000);
  });

  describe('a Lease on a real API server', () => {
    const join = async (namespace: string, identity: string, way: 'proxy' | 'direct', timing = SHORT_LEASE) => {
      const client = await ground().client(namespace, way);
      const lease = new Lease({
        client,
        namespace,
        name: 'leader',
        identity,
        clock: systemClock,
        log: keepLog().log,
        ...timing,
      });
      const told: { what: string; at: number }[] = [];
      const stop = new AbortController();
      const tell = (what: string): void => void told.push({ what, at: performance.now() });
      const running = lease.run(stop.signal, { onStarted: () => tell('started'), onLost: () => tell('lost') });
      const leave = async (): Promise<void> => {
        stop.abort();
        await running;
        await client.close();
      };
      return { lease, told, leave };
    };
    const told = (one: { told: { what: string }[] }, what: string): Promise<unknown> =>
      until(`${what} to be told`, () => one.told.some((t) => t.what === what) || notYet(one.told), { timeoutMs: 60_000 });
    const holder = async (namespace: string): Promise<unknown> =>
      (await ground().cluster.client.get('coordination.k8s.io/v1/Lease', `${namespace}/leader`))['spec'].holderIdentity;

    test('is given up by a holder who is cut off before the next one takes it, and not written by him afterwards', async () => {
      const namespace = await ground().namespace();
      const a = await join(namespace, 'a', 'proxy');
      await told(a, 'started');
      const b = await join(namespace, 'b', 'direct');
      ground().proxy.gate.freeze();
      await told(b, 'started');
      expect(a.told.map((t) => t.what)).toEqual(['started', 'lost']);
      expect(a.told[1]?.at).toBeLessThan(b.told[0]?.at ?? 0);
      expect([a.lease.held, b.lease.held]).toEqual([false, true]);
      ground().proxy.gate.thaw();
      await a.leave();
      expect(await holder(namespace)).toBe('b');
      await b.leave();
      expect(await holder(namespace)).toBe('');
    }, 150_000);

    test('goes to the next one without waiting when the holder leaves', async () => {
      const namespace = await ground().namespace();
      const a = await join(namespace, 'a', 'direct', LONG_LEASE);
      await told(a, 'started');
      const b = await join(namespace, 'b', 'direct', LONG_LEASE);
      await a.leave();
      const left = performance.now();
      await told(b, 'started');
      expect((b.told[0]?.at ?? Infinity) - left).toBeLessThan(LONG_LEASE.leaseDurationMs / 2);
      await b.leave();
    }, 150_000);

    test('is lost to a process that was stopped meanwhile, which then exits non-zero', async () => {
      const namespace = await ground().namespace();
      const child = run(program, ['lease', await ground().kubeconfig(namespace, 'direct'), namespace, 'leader']);
      await until('the child to hold the lease', () => child.lines.includes('started') || notYet(child.lines), {
        timeoutMs: 60_000,
      });
      child.process.kill('SIGSTOP');
      const b = await join(namespace, 'b', 'direct');
      await told(b, 'started');
      child.process.kill('SIGCONT');
      expect(await child.exited).toBe(LOST_LEASE_EXIT);
      expect(await holder(namespace)).toBe('b');
      await b.leave();
    }, 150_000);
  });
}
