// Makes and removes gangs from a process of its own, so that its work is not taken for the controller's: one JSON line a command.
import { createInterface } from 'node:readline';
import { ClusterClient } from '../../../test/cluster/client.js';
import { notYet, sleep, until } from '../../../test/cluster/until.js';
import type { GangPlan } from './gangs.js';
import { jobOf, NAMESPACE, PREWARM, SYSTEM, workloadOf } from './gangs.js';

export type Command =
  | { do: 'make'; gangs: GangPlan[] }
  | { do: 'remove'; names: string[] }
  /** Makes a gang; answers with the ms until there is a DaemonSet of pullers for its image. */
  | { do: 'head'; gang: GangPlan; resolved: string };

const AT_ONCE = 12;
const client = new ClusterClient(process.argv[2] ?? '');
/** Samples of how long the API server takes for something small, ms. */
let samples: number[] = [];

async function each<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  const left = [...all];
  const worker = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function make(gang: GangPlan): Promise<void> {
  await client.create(workloadOf(gang, await client.create(jobOf(gang))));
}

async function run(command: Command): Promise<unknown> {
  switch (command.do) {
    case 'make':
      await each(command.gangs, make);
      return {};
    case 'remove':
      await each(command.names, (name) => client.delete('batch/v1/Job', `${NAMESPACE}/${name}`));
      await until(
        'the gangs to be gone',
        async () => {
          const left = (await client.list(PREWARM, { namespace: NAMESPACE })).filter((p) =>
            command.names.includes(String(p['spec'].gangRef?.name)),
          );
          return left.length === 0 || notYet(`${left.length} are left`);
        },
        { timeoutMs: 180_000 },
      );
      return {};
    case 'head':
      return { ms: await untilDaemonSet(command) };
  }
}

async function untilDaemonSet({ gang, resolved }: Extract<Command, { do: 'head' }>): Promise<number> {
  const stop = new AbortController();
  let begun = Number.NaN;
  let opened = (): void => undefined;
  const open = new Promise<void>((resolve) => (opened = resolve));
  const seen = (async (): Promise<number> => {
    for await (const { type, object } of client.watch('apps/v1/DaemonSet', { namespace: SYSTEM, signal: stop.signal })) {
      if (type === 'BOOKMARK') opened();
      const volumes: { image?: { reference?: string } }[] = object['spec']?.template?.spec?.volumes ?? [];
      if (volumes.some((v) => v.image?.reference === resolved)) return performance.now() - begun;
    }
    throw new Error('the watch of DaemonSets ended');
  })();
  await open;
  begun = performance.now();
  await make(gang);
  try {
    return await Promise.race([
      seen,
      sleep(60_000).then(() => Promise.reject(new Error(`no DaemonSet for ${resolved} in 60 s`))),
    ]);
  } finally {
    stop.abort();
    seen.catch(() => undefined);
  }
}

async function sample(): Promise<never> {
  for (;;) {
    await sleep(500);
    const begun = performance.now();
    await client.get('v1/Namespace', NAMESPACE).catch(() => undefined);
    samples.push(performance.now() - begun);
  }
}

void sample();
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const answer = await run(JSON.parse(line) as Command);
    process.stdout.write(`${JSON.stringify({ ...(answer as object), samples })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: (error as Error).message, samples })}\n`);
  }
  samples = [];
}
process.exit(0);
