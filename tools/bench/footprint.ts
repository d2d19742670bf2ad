import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Cluster } from '../../test/cluster/cluster.js';
import type { HarbingerProcess } from '../../test/cluster/harbinger.js';
import { sleep } from '../../test/cluster/until.js';
import { measurement, type Measurement } from './results.js';

const run = promisify(execFile);
const BUNDLE = '.out/harbinger.mjs';
const STARTS = 10;
const REPEATS = 3;
/** By then caches are filled, certificates made and the garbage of the start collected. */
const SETTLED_MS = 60_000;

/** What Harbinger costs where it idles: time until the executable answers, and memory of its processes beside a Kueue. */
export async function footprint(say: (line: string) => void): Promise<Measurement[]> {
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const began = performance.now();
    await run(process.execPath, [BUNDLE, 'version']);
    starts.push((performance.now() - began) / 1000);
  }
  return [measurement('bundle_start_s', 's', starts), ...(await memory(say))];
}

async function memory(say: (line: string) => void): Promise<Measurement[]> {
  const cluster = await Cluster.start({ name: 'bench-footprint', kueue: true, say });
  try {
    const { webhooks, controllers } = await cluster.installHarbinger({});
    await cluster.kueueQueue({ checks: ['prewarm'] });
    const all = [...webhooks, ...controllers];
    const samples = new Map<string, number[]>();
    for (let i = 1; i <= REPEATS; i++) {
      await Promise.all(all.map((p) => p.restart('SIGTERM')));
      const settled = sleep(SETTLED_MS);
      await Promise.all(all.map((p) => p.untilReady()));
      await settled;
      for (const p of all) samples.set(p.name, [...(samples.get(p.name) ?? []), await residentMb(p)]);
      say(`memory: ${i} of ${REPEATS} starts measured`);
    }
    const of = (name: string, processes: readonly HarbingerProcess[]): Measurement =>
      measurement(
        name,
        'MB',
        processes.flatMap((p) => samples.get(p.name) ?? []),
      );
    return [of('rss_webhook_mb', webhooks), of('rss_controller_mb', controllers)];
  } finally {
    await cluster.stop();
  }
}

/** ps counts in KiB; a process that has gone is an error. */
export async function residentMb({ name, pid }: HarbingerProcess): Promise<number> {
  const { stdout } = await run('ps', ['-o', 'rss=', '-p', String(pid)]);
  const kib = Number(stdout.trim());
  if (!(kib > 0)) throw new Error(`${name}: ps says "${stdout.trim()}" for process ${pid}`);
  return (kib * 1024) / 1e6;
}
