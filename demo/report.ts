import { LEGS } from '../src/cli/timeline/model.js';
import type { GangTimes, LegName } from '../src/cli/timeline/model.js';
import { floorSeconds } from './settings.js';
import type { NodeKind } from '../test/cluster/choose-nodes.js';

/** Steps of a run in the order in which they are expected. A run has succeeded when each was observed through the API. */
export const STEPS = [
  'cluster-ready',
  'images-pushed',
  'harbinger-ready',
  'queue-active',
  'blocker-holds-quota',
  'gang-queued',
  'imageprewarm-created',
  'nodes-warming',
  'nodes-warm',
  'check-ready-without-quota',
  'blocker-ended',
  'gang-admitted',
  'pods-carry-recorded-digest',
  'gang-running',
  'pullers-removed',
  'cold-leg-measured',
  'warm-leg-measured',
  'pod-rewritten-to-estargz',
  'pod-rewritten-to-zstd',
  'pod-left-alone-with-reason',
] as const;
export type StepName = (typeof STEPS)[number];

export interface Step {
  name: StepName;
  /** ISO time; null if the step was never seen. */
  at: string | null;
  observed: boolean;
}

export interface Leg {
  pods: number;
  /** Pods whose image differs from the one in the Job's template. */
  rewritten: number;
  queuedAt: string;
  quotaFreeAt: string;
  admittedAt: string;
  firstRunningAt: string;
  lastRunningAt: string;
  /** Bytes that the registry link carried from the queue entry to the last Pod running. */
  bytes: number;
}

export interface Report {
  schema: 1;
  nodes: NodeKind;
  queue: 'kueue';
  steps: Step[];
  legs: Partial<Record<LegName, Leg>>;
  prewarm: { nodesDesired: number; nodesWarm: number; seconds: number } | null;
  /** Bytes of the cold leg through the link: what no cold start can beat. */
  floorSeconds: number | null;
  /** Cold wait over Harbinger's wait; null with fake nodes, where the pull is a model and the ratio would prove nothing. */
  speedup: number | null;
}

export interface MeasuredLeg {
  times: GangTimes;
  rewritten: number;
  bytes: number;
}

export interface ReportInput {
  nodes: NodeKind;
  linkMbit: number;
  seen: ReadonlyMap<StepName, number>;
  legs: readonly MeasuredLeg[];
  prewarm: Report['prewarm'];
}

/** The report of a run, complete or not; what was not measured is absent or null, never estimated. */
export function reportOf(input: ReportInput): Report {
  const legs: Report['legs'] = {};
  for (const name of LEGS) {
    const leg = input.legs.find((l) => l.times.leg === name);
    if (leg !== undefined) legs[name] = legOf(leg);
  }
  const cold = waitSeconds(legs.cold);
  const ours = waitSeconds(legs.harbinger);
  return {
    schema: 1,
    nodes: input.nodes,
    queue: 'kueue',
    steps: stepsOf(input.seen),
    legs,
    prewarm: input.prewarm,
    floorSeconds: legs.cold === undefined ? null : round(floorSeconds(legs.cold.bytes, input.linkMbit), 1),
    speedup: input.nodes === 'fake' || cold === undefined || ours === undefined ? null : round(cold / ours, 1),
  };
}

/** Seen steps in the order of their times, since legs run in random order; then those that were not seen. */
function stepsOf(seen: ReadonlyMap<StepName, number>): Step[] {
  const at = (name: StepName): number => seen.get(name) ?? Infinity;
  return STEPS.map((name): Step => ({
    name,
    at: seen.has(name) ? new Date(at(name)).toISOString() : null,
    observed: seen.has(name),
  })).sort((a, b) => (at(a.name) === at(b.name) ? 0 : at(a.name) - at(b.name)));
}

function legOf({ times, rewritten, bytes }: MeasuredLeg): Leg {
  const iso = (ms: number): string => new Date(ms).toISOString();
  return {
    pods: times.pods,
    rewritten,
    queuedAt: iso(times.queuedAt),
    quotaFreeAt: iso(times.quotaFreeAt),
    admittedAt: iso(times.admittedAt),
    firstRunningAt: iso(times.firstRunningAt),
    lastRunningAt: iso(times.lastRunningAt),
    bytes,
  };
}

/** Seconds from free quota to the last Pod running: the one figure that legs are compared by. */
export function waitSeconds(leg: Leg | undefined): number | undefined {
  return leg === undefined ? undefined : (Date.parse(leg.lastRunningAt) - Date.parse(leg.quotaFreeAt)) / 1000;
}

export interface Target {
  what: string;
  value: number;
  limit: string;
  met: boolean;
}

/** The figures that a run on real nodes is held to; none with fake nodes or for legs that are missing. */
export function targetsOf(report: Report): Target[] {
  const [cold, ours, warm] = [report.legs.cold, report.legs.harbinger, report.legs.warm].map(waitSeconds);
  if (report.nodes === 'fake' || cold === undefined || ours === undefined || warm === undefined) return [];
  const target = (what: string, value: number, sign: '<=' | '>=', limit: number): Target => ({
    what,
    value: round(value, 2),
    limit: `${sign} ${limit}`,
    met: sign === '<=' ? value <= limit : value >= limit,
  });
  return [
    target('harbinger wait / warm control', ours / warm, '<=', 1.25),
    target('cold wait / harbinger wait', cold / ours, '>=', 15),
    target('cold wait / floor', cold / (report.floorSeconds ?? 0), '<=', 1.4),
  ];
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
