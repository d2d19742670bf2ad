import type { History, Life, Period, Raw, Violation } from './history.js';
import { livesOf, nameOf } from './history.js';

export interface GatesInput {
  history: History;
  /** How long a job waits at most for which nobody names a time, ms. */
  gatedMs: number;
  /** How late the end of a gate may come, ms. */
  boundMs: number;
  /** The longest hold that the gang asked for in a period, ms; undefined where it did not opt in. */
  asked: (workload: Raw, period: Period) => number | undefined;
  /** End of what was seen, epoch ms. */
  until: number;
}

/** P5 without quota: our name goes off the list of those whom Kueue waits for, however long warmth takes and whoever is dead. */
export function boundedGates(input: GatesInput): Violation[] {
  return livesOf(input.history, 'Workload').flatMap((life) => overdue(life, input));
}

const GATES = 'kueue.x-k8s.io/admission-gated-by';
const isGated = ({ metadata }: Raw): boolean => metadata.annotations?.[GATES]?.includes('harbinger.dev/') === true;

function overdue({ versions, goneAt }: Life, { gatedMs, boundMs, asked, until }: GatesInput): Violation[] {
  const [first] = versions;
  if (first === undefined || !isGated(first.object)) return [];
  const freed = versions.find(({ object }) => !isGated(object));
  const period = { from: first.at, to: Math.min(freed?.at ?? goneAt, until) };
  const most = Math.max(gatedMs, asked(first.object, period) ?? 0);
  const tooLong = period.to - period.from - most;
  if (tooLong <= boundMs) return [];
  return [{ promise: 'P5', at: period.to, object: nameOf(first.object), message: `its gate stood ${tooLong} ms too long` }];
}
