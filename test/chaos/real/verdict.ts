import type { AuditLog } from '../../cluster/audit.js';
import { CHECK, NS, SYSTEM } from '../../integration/controller/ground.js';
import {
  boundedHolds,
  provenWarm,
  releasesOf,
  uniformGangs,
  withinBudgets,
  type Change,
  type Violation,
} from '../invariants/index.js';
import { CONFIG, MAX_PULLING } from './ground.js';
import type { Seen } from './recorder.js';
import { askedHold, historyOf, imageTruths, leaderless, pullTruths } from './truth.js';

/** Watches, kubelets and this program see things at different times, ms. */
const LAG_MS = 6_000;
/** A Lease of 15 s has to run out, the next holder looks every 2 s, an API server restarts for 5 s. */
const TAKEOVER_MS = 30_000;
const TAKEN_BACK_MS = { disk: 8_000, shown: 8_000 } as const;

export interface Verdict {
  violations: Violation[];
  /** Pods that came as their template says, because no webhook answered in time or all of them were told to change nothing. */
  failedOpen: number;
  releases: Record<string, number>;
  changes: number;
  /** Pulls that were held against the limits. */
  pulls: number;
}

/** What the promises say of what was recorded. */
export function judge(seen: readonly Seen[], audit: AuditLog, since: number): Verdict {
  const history = historyOf(seen);
  const until = Date.now();
  const checks = new Set([CHECK]);
  const blind = leaderless(history, 'harbinger-controller', until);
  const open = failOpens(audit, since);
  const pulls = pullTruths(seen);
  const unlike = uniformGangs(history, { lagMs: LAG_MS });
  const strangers = unlike.filter((v) => !cameUnread(v, history, [...open, ...switchedOff(seen)]));
  return {
    violations: [
      ...strangers,
      ...provenWarm({
        history,
        images: imageTruths(seen),
        lagMs: LAG_MS,
        takenBackMs: TAKEN_BACK_MS,
        blind,
      }),
      ...boundedHolds({
        history,
        checks,
        unstampedHoldMs: CONFIG.budgets.unstampedHoldSeconds * 1000,
        boundMs: TAKEOVER_MS,
        ...askedHold(history, LAG_MS),
        lagMs: LAG_MS,
        ahead: [],
        until,
      }),
      ...withinBudgets(pulls, { maxPullingNodes: MAX_PULLING, maxPullingNodesPerRegistry: MAX_PULLING }),
      ...forbidden(seen, audit, since),
    ],
    failedOpen: unlike.length - strangers.length,
    releases: releasesOf(history),
    changes: history.length,
    pulls: pulls.length,
  };
}

/** Times at which the API server admitted a Pod without an answer of the webhook. */
function failOpens(audit: AuditLog, since: number): { from: number; to: number }[] {
  return audit
    .query({ verb: 'create', resource: 'pods', namespace: NS, since })
    .filter((e) => Object.keys(e.annotations).some((key) => key.startsWith('failed-open.mutat')))
    .map((e) => ({ from: e.at, to: e.endedAt + 2_000 }));
}

/** Times at which webhooks were told to change nothing, until each has read that it is over. */
function switchedOff(seen: readonly Seen[]): { from: number; to: number }[] {
  const notes = seen.flatMap((s) => (s.what === 'note' ? [s] : []));
  return notes.flatMap((note) => {
    const what = /^\d+ mode-\w+: (mode \w+)$/.exec(note.text)?.[1];
    const healed = notes.find((n) => n.at >= note.at && n.text === `healed: ${what ?? ''}`);
    return what === undefined ? [] : [{ from: note.at, to: (healed?.at ?? Number.POSITIVE_INFINITY) + LAG_MS }];
  });
}

/** A Pod that no webhook has read, made at a moment at which that is to be expected. */
function cameUnread(
  { at, object }: Violation,
  history: readonly Change[],
  open: readonly { from: number; to: number }[],
): boolean {
  const born = history.find(
    (c) => c.type === 'ADDED' && `Pod ${c.object.metadata.namespace}/${c.object.metadata.name}` === object,
  );
  const pod = born?.object;
  return pod?.metadata.annotations?.['harbinger.dev/decisions'] === undefined && open.some((o) => o.from <= at && at <= o.to);
}

/** An API server that has just started refuses everybody until it has read its roles, ms. */
const ROLES_READ_MS = 45_000;

/** Requests of ours that were refused for lack of rights. */
function forbidden(seen: readonly Seen[], audit: AuditLog, since: number): Violation[] {
  const restarts = seen.flatMap((s) => (s.what === 'note' && s.text.includes('restart-api-server') ? [s.at] : []));
  const excused = (at: number): boolean => restarts.some((r) => Math.abs(at - r) < ROLES_READ_MS);
  return ['controller', 'webhook'].flatMap((account) =>
    audit.query({ user: `${SYSTEM}:harbinger-${account}`, code: 403, since }).flatMap((e) =>
      excused(e.at)
        ? []
        : [
            {
              promise: 'P7' as const,
              at: e.at,
              object: `${account}`,
              message: `403 for ${e.verb} ${e.uri}`,
            },
          ],
    ),
  );
}
