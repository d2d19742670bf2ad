import { readFileSync } from 'node:fs';
import type { Target } from './connection.js';
import type { Load } from './patterns.js';
import { burst, closedLoop, fixedRate, httpRequest } from './patterns.js';
import { review } from './reviews.js';

/** What to send: each Pod has the images of one row, in turn. */
interface Common {
  target: Target;
  namespace: string;
  rows: readonly (readonly string[])[];
}

/** One run of the load generator. */
export type LoadSpec = Common &
  (
    | { pattern: 'closed'; connections: number; warmupMs: number; forMs: number }
    | { pattern: 'each-once'; connections: number }
    | { pattern: 'rate'; connections: number; most: number; perSecond: number; warmupMs: number; forMs: number }
    | { pattern: 'burst'; pods: number }
  );

/** Different enough that no parser can remember the last one. */
const DISTINCT = 64;

async function run(spec: LoadSpec): Promise<Load> {
  const { target, namespace, rows } = spec;
  const make = (serial: number): Buffer => httpRequest(review(serial, namespace, rows[serial % rows.length] ?? []));
  if (spec.pattern === 'burst')
    return burst(
      target,
      Array.from({ length: spec.pods }, (_, i) => make(i)),
    );
  if (spec.pattern === 'each-once') {
    let serial = 0;
    const next = (): Buffer | undefined => (serial < rows.length ? make(serial++) : undefined);
    return closedLoop(target, next, { connections: spec.connections, warmupMs: 0, forMs: 3_600_000 });
  }
  // Made beforehand, so that making them takes no time from the run.
  const requests = Array.from({ length: Math.max(DISTINCT, rows.length) }, (_, i) => make(i));
  let turn = 0;
  const next = (): Buffer => requests[turn++ % requests.length] ?? Buffer.alloc(0);
  return spec.pattern === 'closed' ? closedLoop(target, next, spec) : fixedRate(target, next, spec);
}

process.stdout.write(JSON.stringify(await run(JSON.parse(readFileSync(0, 'utf8')) as LoadSpec)));
