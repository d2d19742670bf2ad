import { secondsText } from './model.js';
import type { Group, Timeline } from './model.js';

/** What the terminal can show. `width` is in columns. */
export interface Style {
  colour: boolean;
  width: number;
}

/**
 * Colour only for people: a terminal, and NO_COLOR not set (no-color.org: present and not empty). `stream` is shaped like
 * process.stdout.
 */
export function styleOf(stream: { isTTY?: boolean; columns?: number }, env: Record<string, string | undefined>): Style {
  const colour = stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  return { colour, width: Math.max(40, Math.min(stream.columns ?? 100, 120)) };
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, grey: 90 } as const;
export type Paint = keyof typeof CODES;

export function paint(style: Style, how: Paint, content: string): string {
  return style.colour ? `\u001b[${CODES[how]}m${content}\u001b[0m` : content;
}

/** `[#########...........] 2/3` with full blocks where there is colour, since such terminals know UTF-8. `share` is 0..1 and clamped. */
export function progressBar(style: Style, share: number, label: string, columns = 30): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * columns);
  const [on, off] = style.colour ? ['█', '░'] : ['#', '.'];
  return `[${paint(style, 'blue', on.repeat(full))}${paint(style, 'grey', off.repeat(columns - full))}] ${label}`;
}

/** Columns padded to their widest cell, two spaces apart, as kubectl prints them; the first row is the heading. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

const MARK = { queued: '-', idle: '!', running: '=', pulling: '~' } as const;
const HUE: Record<keyof typeof MARK, Paint> = { queued: 'grey', idle: 'red', running: 'green', pulling: 'blue' };
const LABEL = 14;

/** The timeline as a few lines of text: a row a gang and a row a node, `|` where quota became free. */
export function renderText(timeline: Timeline, style: Style): string {
  const columns = style.width - LABEL - 13;
  const lines = [paint(style, 'bold', timeline.headline), paint(style, 'grey', timeline.setting), ''];
  for (const group of timeline.groups) lines.push(...groupLines(group, timeline, style, columns));
  lines.push('', legend(style));
  return lines.join('\n');
}

function groupLines(group: Group, timeline: Timeline, style: Style, columns: number): string[] {
  const gang = row(group.gang.spans, timeline, style, columns);
  return [
    `${paint(style, 'bold', group.title.padEnd(LABEL))}${gang}  ${secondsText(group.waitSeconds)}`,
    ...group.nodes.map(
      (lane) => `${`  ${lane.label}`.slice(0, LABEL - 1).padEnd(LABEL)}${row(lane.spans, timeline, style, columns)}`,
    ),
  ];
}

function row(spans: Group['gang']['spans'], timeline: Timeline, style: Style, columns: number): string {
  const at = (seconds: number): number => {
    const share = (seconds - timeline.from) / (timeline.to - timeline.from);
    return Math.round(Math.min(1, Math.max(0, share)) * (columns - 1));
  };
  const cells = Array.from({ length: columns }, () => ' ');
  // Later spans first and each at least a column wide, so that a short wait is not painted over by what follows it.
  for (const span of [...spans].reverse()) {
    const from = at(span.from);
    const to = Math.max(from + 1, span.to === undefined ? columns : at(span.to));
    for (let i = from; i < to && i < columns; i += 1) cells[i] = paint(style, HUE[span.kind], MARK[span.kind]);
  }
  cells.splice(at(0), 0, '|');
  return cells.join('');
}

function legend(style: Style): string {
  const entry = (kind: keyof typeof MARK, label: string): string => `${paint(style, HUE[kind], MARK[kind].repeat(3))} ${label}`;
  return [
    entry('queued', 'queued'),
    entry('pulling', 'pulling'),
    entry('idle', 'quota held, not complete'),
    entry('running', 'running'),
    '| quota free',
  ].join('   ');
}
