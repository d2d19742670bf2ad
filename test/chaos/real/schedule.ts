/** What can happen to a cluster in one step. Each is a name that is printed, counted, and dealt by the schedule of a seed. */
export const EVENT_KINDS = [
  'create-held',
  'create-unheld',
  'create-not-opted-in',
  'create-short-hold',
  'delete-gang',
  'deactivate',
  'requeue',
  'preempt',
  'opt-out',
  'move-tag',
  'deny-image',
  'registry-down',
  'node-not-ready',
  'node-gone',
  'pulls-hang',
  'pulls-fail',
  'disk-full',
  'kill-controller',
  'freeze-controller',
  'kill-webhook',
  'freeze-webhook',
  'restart-api-server',
  'freeze-controller-manager',
  'delete-daemonset',
  'delete-puller',
  'delete-prewarm',
  'delete-check',
  'mode-observe',
  'mode-off',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

export interface ChaosEvent {
  kind: EventKind;
  /** 0 <= x < 1: picks the object among those that the event can hit when its time comes. */
  pick: number;
  /** Steps after which a fault that lasts is put right. */
  lasts: number;
  /** Pause before the event, ms. */
  pauseMs: number;
}

/** Every seed begins with gangs to do something to; the rest of the deck is one card of each kind and some more gangs. */
const OPENING: readonly EventKind[] = ['create-held', 'create-unheld', 'create-held'];
const MORE: readonly EventKind[] = ['create-held', 'create-unheld', 'create-held', 'create-short-hold'];

/** mulberry32: 32 bits of state are enough for a schedule, and the same seed gives the same one everywhere. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The events of a seed: every kind once at least, so that five seeds have seen each pair in several orders. */
export function schedule(seed: number): ChaosEvent[] {
  const next = random(seed);
  const deck = [...EVENT_KINDS, ...MORE];
  for (let i = deck.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [deck[i], deck[j]] = [deck[j] as EventKind, deck[i] as EventKind];
  }
  return [...OPENING, ...deck].map((kind) => ({
    kind,
    pick: next(),
    lasts: 1 + Math.floor(next() * 5),
    pauseMs: 150 + Math.floor(next() * 1200),
  }));
}
