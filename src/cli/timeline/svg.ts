import { secondsText } from './model.js';
import type { Group, Lane, Span, SpanKind, Timeline } from './model.js';

/** Geometry in SVG units. The picture is scaled by whoever shows it, so that only proportions matter. */
const WIDTH = 960;
const LEFT = 168;
const RIGHT = 24;
const TOP = 122;
const GANG_HEIGHT = 30;
const NODE_HEIGHT = 8;
const NODE_GAP = 5;
const NOTE_HEIGHT = 20;
const GROUP_GAP = 26;

/**
 * Two palettes (GitHub's light and dark pages); hues after Okabe and Ito, which colour-blind people can tell apart. Plain class
 * rules instead of CSS variables, since renderers other than browsers do not know those.
 */
const STYLE = `
  text { font-family: system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328 }
  .bg { fill: #ffffff } .wait { fill: #f3f5f7 } .h1 { font-size: 21px; font-weight: 650 } .leg { font-size: 15px; font-weight: 650 }
  .muted { fill: #59636e } .small { font-size: 11px } .strong { font-weight: 650; font-size: 15px } .zone { font-weight: 600 }
  .grid { stroke: #d8dee4; stroke-width: 1 } .zero { stroke: #1f2328; stroke-width: 1.5 } .floor { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 5 4 }
  .pullnote { fill: #0072b2; font-weight: 600 } .queued { fill: #b7c0c9 } .pulling { fill: #0072b2 } .idle { fill: #d55e00 } .running { fill: #009e73 }
  .s-running { stop-color: #009e73 } .inbar { fill: #ffffff; font-weight: 600 } .inqueue { fill: #1f2328; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .bg { fill: #0d1117 } .wait { fill: #161b22 } .muted { fill: #9198a1 }
    .grid { stroke: #2a313a } .zero { stroke: #e6edf3 } .floor { stroke: #9198a1 }
    .pullnote { fill: #58aee8 } .queued { fill: #4c5661 } .pulling { fill: #3d9ddb } .idle { fill: #e8742a } .running { fill: #1fb587 } .s-running { stop-color: #1fb587 }
    .inbar { fill: #ffffff } .inqueue { fill: #e6edf3 }
  }`;

interface Canvas {
  x: (seconds: number) => number;
  /** Smallest and largest x that may be drawn at. */
  x0: number;
  x1: number;
}

/** A self-contained SVG (no script, no outside font or image) of the timeline; it follows the reader's light or dark setting. */
export function renderSvg(timeline: Timeline): string {
  const x0 = LEFT;
  const x1 = WIDTH - RIGHT;
  const scale = (x1 - x0) / (timeline.to - timeline.from);
  const canvas: Canvas = { x0, x1, x: (s) => Math.min(x1, Math.max(x0, x0 + (s - timeline.from) * scale)) };
  const body: string[] = [];
  let y = TOP;
  for (const group of timeline.groups) {
    body.push(drawGroup(group, canvas, y));
    y += groupHeight(group) + GROUP_GAP;
  }
  const bottom = y - GROUP_GAP + 14;
  const height = bottom + 76;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="t d">`,
    `<title id="t">${escape(timeline.headline)}</title>`,
    `<desc id="d">${escape(describe(timeline))}</desc>`,
    `<style>${STYLE}\n</style>`,
    '<defs><linearGradient id="on"><stop class="s-running" offset="0"/><stop class="s-running" offset="0.6"/><stop class="s-running" offset="1" stop-opacity="0.15"/></linearGradient></defs>',
    `<rect class="bg" width="${WIDTH}" height="${height}" rx="8"/>`,
    text([24, 40], timeline.headline, 'h1'),
    text([24, 62], timeline.setting, 'muted'),
    drawAxis(timeline, canvas, bottom),
    ...body,
    drawFloor(timeline, canvas, bottom),
    drawLegend(bottom + 56),
    '</svg>',
    '',
  ].join('\n');
}

function groupHeight(group: Group): number {
  return GANG_HEIGHT + group.nodes.length * (NODE_HEIGHT + NODE_GAP) + (pullNote(group) === undefined ? 2 : NOTE_HEIGHT);
}

function drawAxis(timeline: Timeline, c: Canvas, bottom: number): string {
  const zero = c.x(0);
  const top = TOP - 18;
  const parts = [`<rect class="wait" x="${c.x0}" y="${top}" width="${n(zero - c.x0)}" height="${n(bottom - top)}"/>`];
  for (const t of timeline.ticks) {
    const x = n(c.x(t));
    parts.push(`<line class="${t === 0 ? 'zero' : 'grid'}" x1="${x}" x2="${x}" y1="${top}" y2="${n(bottom)}"/>`);
    parts.push(text([c.x(t), bottom + 17], tickText(t), `small ${t === 0 ? 'zone' : 'muted'}`, 'middle'));
  }
  const wide = zero - c.x0 > 150;
  if (wide) parts.push(text([zero - 10, top - 8], 'waiting in the queue: costs nothing', 'muted', 'end'));
  parts.push(text([zero, top - 24], 'quota is free', 'zone', wide ? 'middle' : 'start'));
  parts.push(text([zero + 10, top - 8], 'accelerators reserved', 'muted'));
  return parts.join('\n');
}

function drawFloor(timeline: Timeline, c: Canvas, bottom: number): string {
  if (timeline.floorSeconds === undefined) return '';
  const x = n(c.x(timeline.floorSeconds));
  return [
    `<line class="floor" x1="${x}" x2="${x}" y1="${TOP - 18}" y2="${n(bottom)}"/>`,
    text([c.x(timeline.floorSeconds), TOP - 42], `floor ${secondsText(timeline.floorSeconds)}`, 'zone', 'middle'),
    text([c.x(timeline.floorSeconds), TOP - 26], 'bytes / link', 'small muted', 'middle'),
  ].join('\n');
}

function drawGroup(group: Group, c: Canvas, y: number): string {
  const parts = [text([24, y + 12], group.title, 'leg'), text([24, y + 27], group.note, 'small muted')];
  for (const span of group.gang.spans) parts.push(bar(span, c, y, GANG_HEIGHT));
  parts.push(...gangLabels(group, c, y));
  group.nodes.forEach((lane, i) => {
    parts.push(drawNode(lane, c, y + GANG_HEIGHT + NODE_GAP + i * (NODE_HEIGHT + NODE_GAP)));
  });
  const note = pullNote(group);
  if (note !== undefined) parts.push(text([c.x(note.from), y + groupHeight(group) - 3], note.text, 'small pullnote'));
  return parts.join('\n');
}

/** Says under the blue bars who pays for them; this sentence is the point of the picture. */
function pullNote(group: Group): { from: number; text: string } | undefined {
  const pulls = group.nodes.flatMap((lane) => lane.spans).filter((s) => s.kind === 'pulling');
  if (pulls.length === 0) return undefined;
  const from = Math.min(...pulls.map((s) => s.from));
  return { from, text: from < 0 ? 'the pull is paid for by the wait' : 'the pull is paid for by reserved accelerators' };
}

function drawNode(lane: Lane, c: Canvas, y: number): string {
  const parts = lane.spans.map((span) => bar(span, c, y, NODE_HEIGHT));
  return [text([LEFT - 10, y + NODE_HEIGHT], lane.label, 'small muted', 'end'), ...parts].join('\n');
}

/** The compared figure stands in its bar where it fits, otherwise to the right of it on the running bar. */
function gangLabels(group: Group, c: Canvas, y: number): string[] {
  const base = y + GANG_HEIGHT / 2 + 5;
  const labels: string[] = [];
  const queued = group.gang.spans.find((s) => s.kind === 'queued');
  const queuedWidth = queued === undefined ? 0 : c.x(0) - c.x(queued.from);
  const queuedText = `queued ${secondsText(-(queued?.from ?? 0))}`;
  if (queuedWidth > width(queuedText, 12) + 12)
    labels.push(text([c.x(0) - queuedWidth / 2, base], queuedText, 'inqueue', 'middle'));
  const figure = secondsText(group.waitSeconds);
  const idleEnd = c.x(group.waitSeconds);
  const long = `all wait ${figure} for the image`;
  if (idleEnd - c.x(0) > width(long, 15) + 16) labels.push(text([(c.x(0) + idleEnd) / 2, base], long, 'inbar strong', 'middle'));
  else if (idleEnd - c.x(0) > width(figure, 15) + 10)
    labels.push(text([(c.x(0) + idleEnd) / 2, base], figure, 'inbar strong', 'middle'));
  else labels.push(text([idleEnd + 8, base], `${figure}, then all run`, 'inbar strong'));
  return labels;
}

/** Bars keep a visible width however short they are; open ones fade out at the edge. */
function bar(span: Span, c: Canvas, y: number, height: number): string {
  const from = c.x(span.from);
  const to = span.to === undefined ? c.x1 : c.x(span.to);
  const fill = span.to === undefined ? 'fill="url(#on)"' : `class="${span.kind}"`;
  return `<rect ${fill} x="${n(from)}" y="${n(y)}" width="${n(Math.max(1.5, to - from))}" height="${height}"/>`;
}

const LEGEND: readonly { kind: SpanKind; label: string }[] = [
  { kind: 'queued', label: 'queued' },
  { kind: 'pulling', label: 'a node pulls the image' },
  { kind: 'idle', label: 'quota held, gang not complete' },
  { kind: 'running', label: 'running (goes on beyond the edge)' },
];

function drawLegend(y: number): string {
  let x = LEFT;
  const parts: string[] = [];
  for (const { kind, label } of LEGEND) {
    parts.push(`<rect class="${kind}" x="${x}" y="${y - 9}" width="18" height="10"/>`, text([x + 24, y], label, 'small muted'));
    x += 24 + width(label, 11) + 24;
  }
  return parts.join('\n');
}

/** What a screen reader says. */
function describe(timeline: Timeline): string {
  const legs = timeline.groups.map((g) => `${g.title}: ${secondsText(g.waitSeconds)} from free quota to the last Pod running`);
  return [timeline.setting, ...legs].join('. ');
}

function tickText(seconds: number): string {
  return seconds === 0 ? '0' : `${seconds > 0 ? '+' : '−'}${Math.abs(seconds)} s`;
}

function text(
  [x, y]: [number, number],
  content: string,
  className: string,
  anchor: 'start' | 'middle' | 'end' = 'start',
): string {
  const at = anchor === 'start' ? '' : ` text-anchor="${anchor}"`;
  return `<text x="${n(x)}" y="${n(y)}" class="${className}"${at}>${escape(content)}</text>`;
}

/** Rough width of a text in a proportional sans-serif face: good enough to decide whether it fits. */
function width(content: string, size: number): number {
  return content.length * size * 0.56;
}

/** Two decimals: SVG needs no more, and the file stays readable and diffs small. */
function n(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escape(content: string): string {
  return content.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] ?? c);
}
