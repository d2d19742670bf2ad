import type { Violation } from '../invariants/index.js';

/** Of a trace the last lines that have to do with what went wrong: the objects by name, faults and wishes. */
export function lastLines(lines: readonly string[], violations: readonly Violation[], most: number): string[] {
  const names = violations.map((v) => v.object.split('/').pop()?.split(' ').pop() ?? '').filter((name) => name.length > 3);
  const stems = names.map((name) => name.replace(/^job-/, '').replace(/-[0-9a-f]{4,8}$/, ''));
  const until = Math.max(...violations.map((v) => v.at));
  const told = lines.filter(
    (line) => /FAULT|WISH|CALM| is down | lost its /.test(line) || stems.some((stem) => line.includes(stem)),
  );
  return until === 0 ? told.slice(-most) : told.filter((line) => timeOf(line) <= until + 5_000).slice(-most);
}

/** Epoch ms of a line, which begins with the seconds since the start. */
function timeOf(line: string): number {
  return Date.parse('2026-01-01T00:00:00Z') + Number(line.slice(0, 9)) * 1000;
}
