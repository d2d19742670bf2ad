/**
 * What happened to a gang, turned into lanes that can be drawn. Zero of the time axis is the moment at which the queue had room
 * for the gang: left of it waiting costs nothing, right of it accelerators are reserved and do no work. One zero for all legs is
 * what makes them comparable, whatever time of day they ran.
 */
export const LEGS = ['cold', 'harbinger', 'warm'] as const;
export type LegName = (typeof LEGS)[number];

/** One node of a gang; all times in epoch milliseconds. */
export interface NodeTimes {
  node: string;
  /** First sight of a Pod that makes this node pull: a puller before the gang, a Pod of the gang itself on a cold node. */
  pullFrom?: number;
  pullTo?: number;
  /** When the gang's Pod on this node was seen running. */
  runningAt: number;
}

/** One gang, from its queue entry to its last Pod running; all times in epoch milliseconds. */
export interface GangTimes {
  leg: LegName;
  pods: number;
  queuedAt: number;
  quotaFreeAt: number;
  admittedAt: number;
  firstRunningAt: number;
  lastRunningAt: number;
  nodes: NodeTimes[];
}

export interface TimelineInput {
  gangs: readonly GangTimes[];
  /** Least time in which the link can carry the bytes of the cold gang. */
  floorSeconds?: number;
  /** One line about where this was measured. */
  setting: string;
}

export type SpanKind = 'queued' | 'idle' | 'running' | 'pulling';

/** Seconds relative to the moment of free quota; `to` is absent where the span goes on beyond what was observed. */
export interface Span {
  kind: SpanKind;
  from: number;
  to?: number;
}

export interface Lane {
  label: string;
  spans: Span[];
}

export interface Group {
  leg: LegName;
  title: string;
  note: string;
  /** Seconds from free quota to the last Pod running: the one figure that is compared. */
  waitSeconds: number;
  gang: Lane;
  nodes: Lane[];
}

export interface Timeline {
  headline: string;
  setting: string;
  /** Ends of the axis in seconds, `from` <= 0. */
  from: number;
  to: number;
  ticks: number[];
  floorSeconds?: number;
  groups: Group[];
}

const TEXT: Record<LegName, { title: string; note: string }> = {
  cold: { title: 'Cold', note: 'pulls when quota is free' },
  harbinger: { title: 'Harbinger', note: 'pulled while queued' },
  warm: { title: 'Warm control', note: 'image was already there' },
};

/** Longest queue wait that is drawn, as a share of the right half of the axis; a night in the queue must not flatten the rest. */
const MAX_LEFT = 1.5;

/**
 * Lanes of one or more gangs over one axis. Total: a gang without node times gets only its own bar.
 * Legs come out in the fixed order cold, harbinger, warm, in whichever order they ran.
 */
export function timelineOf(input: TimelineInput): Timeline {
  const groups = LEGS.flatMap((leg) => input.gangs.filter((g) => g.leg === leg)).map(groupOf);
  const longest = Math.max(1, input.floorSeconds ?? 0, ...groups.map((g) => g.waitSeconds));
  const to = longest * 1.14;
  const queued = Math.max(0, ...groups.map((g) => -(g.gang.spans[0]?.from ?? 0)));
  const from = -Math.min(queued * 1.02, to * MAX_LEFT);
  return {
    headline: headlineOf(groups),
    setting: input.setting,
    from,
    to,
    ticks: ticksOf(from, to),
    ...(input.floorSeconds === undefined ? {} : { floorSeconds: input.floorSeconds }),
    groups,
  };
}

function groupOf(gang: GangTimes): Group {
  const seconds = (at: number): number => (at - gang.quotaFreeAt) / 1000;
  const wait = seconds(gang.lastRunningAt);
  return {
    leg: gang.leg,
    ...TEXT[gang.leg],
    waitSeconds: wait,
    gang: {
      label: `gang of ${gang.pods}`,
      spans: [
        { kind: 'queued', from: seconds(gang.queuedAt), to: 0 },
        { kind: 'idle', from: 0, to: wait },
        { kind: 'running', from: wait },
      ],
    },
    nodes: gang.nodes.map((n) => ({ label: n.node, spans: nodeSpans(n, seconds) })),
  };
}

function nodeSpans(node: NodeTimes, seconds: (at: number) => number): Span[] {
  const running: Span = { kind: 'running', from: seconds(node.runningAt) };
  if (node.pullFrom === undefined) return [running];
  return [{ kind: 'pulling', from: seconds(node.pullFrom), to: seconds(node.pullTo ?? node.runningAt) }, running];
}

/** "1.6 s" below a minute and a half, "2 min 05 s" above. */
export function secondsText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

function headlineOf(groups: readonly Group[]): string {
  const cold = groups.find((g) => g.leg === 'cold');
  const ours = groups.find((g) => g.leg === 'harbinger');
  if (ours === undefined) return 'From free quota to all Pods running';
  if (cold === undefined) return `All Pods run ${secondsText(ours.waitSeconds)} after quota is free`;
  return `All Pods run ${secondsText(ours.waitSeconds)} after quota is free, instead of ${secondsText(cold.waitSeconds)}`;
}

/** Round ticks (1, 2, 5, 10, 15, 30, 60 ... s), at most nine or so over the whole axis, always with 0. */
function ticksOf(from: number, to: number): number[] {
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find((s) => (to - from) / s <= 9) ?? 7200;
  const ticks: number[] = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t === 0 ? 0 : t);
  return ticks;
}
