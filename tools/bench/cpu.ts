import { readFileSync } from 'node:fs';

/** USER_HZ, in which Linux shows times to user space on all of its architectures that Node runs on. */
const TICKS_PER_SECOND = 100;

/** Processor time that a process has taken, seconds. Linux only. */
export function cpuSeconds(pid: number): number {
  return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

/** User and system time of a line of /proc/PID/stat. The name of the program, in brackets, may hold spaces and brackets itself. */
export function parseStat(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // utime and stime are fields 14 and 15 (proc(5)); the first two are cut off.
  const ticks = Number(fields[11]) + Number(fields[12]);
  if (!(ticks >= 0)) throw new Error(`no processor time in "${stat}"`);
  return ticks / TICKS_PER_SECOND;
}
