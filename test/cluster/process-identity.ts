import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A process named so that a later process with a recycled pid is never taken for it. */
export interface ProcessIdentity {
  pid: number;
  /** Kernel start time in clock ticks since boot (Linux) or the text of `ps -o lstart` (elsewhere). */
  startTime: string;
}

/** Start time of a live process, or undefined when there is none (a zombie counts as none). */
export function startTimeOf(pid: number): string | undefined {
  if (process.platform !== 'linux') return startTimeByPs(pid);
  try {
    // The command name (field 2) may hold spaces and brackets: count fields from behind its last bracket.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function startTimeByPs(pid: number): string | undefined {
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Identity of a live process; throws when it has gone. */
export function identityOf(pid: number): ProcessIdentity {
  const startTime = startTimeOf(pid);
  if (startTime === undefined) throw new Error(`process ${pid} does not exist (any more)`);
  return { pid, startTime };
}

/** Whether exactly this process still runs. */
export const isAlive = (who: ProcessIdentity): boolean => startTimeOf(who.pid) === who.startTime;

/** Sends a signal to exactly this process, or to its whole process group; false when it has gone. */
export function signalIfOurs(who: ProcessIdentity, signal: NodeJS.Signals, { group = false } = {}): boolean {
  if (!isAlive(who)) return false;
  try {
    process.kill(group ? -who.pid : who.pid, signal);
    return true;
  } catch {
    return false;
  }
}
