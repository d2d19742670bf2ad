import type { FailureReason } from '../api/reasons.js';

/** What admission says when it refuses a Pod, what that is, and what to do about it. First match wins. */
const TEXTS: readonly (readonly [RegExp, FailureReason, string])[] = [
  [
    /failed quota.*must specify limits/i,
    'QuotaExceeded',
    'pullers have no limits; add a LimitRange with default limits, which costs nothing, or scope the quota',
  ],
  [
    /exceeded quota|failed quota/i,
    'QuotaExceeded',
    'raise the quota by one Pod per image and node, scope it to Pods of a priority class, or give Harbinger a credential for the registry so that pullers run in its namespace',
  ],
  [
    /violates PodSecurity/i,
    'Rejected',
    'pullers fit the level "restricted"; something changed them on the way, look at mutating webhooks of this namespace',
  ],
  [
    /(minimum|maximum) .* usage per (Container|Pod)|limit to request ratio/i,
    'Rejected',
    'pullers ask for no resources, and the LimitRange does not allow that; take its min and maxLimitRequestRatio away or keep the gang in another namespace',
  ],
  [/service ?account .*not found/i, 'Rejected', 'create the service account that the gang names'],
  [/RuntimeClass .*not found/i, 'Rejected', 'create the RuntimeClass that the gang names'],
  [
    /failed calling webhook|context deadline exceeded|connection re(fused|set)|etcdserver|internal error occurred|too many requests/i,
    'NoPod',
    'the DaemonSet controller tries again; if it stays so, look at whoever did not answer',
  ],
];

/** What kind of refusal the API server's words are. Total. */
export function classifyRejection(text: string): FailureReason {
  return TEXTS.find(([pattern]) => pattern.test(text))?.[1] ?? 'Rejected';
}

/** The words with the way out behind them, where one is known. */
export function withWayOut(text: string): string {
  const way = TEXTS.find(([pattern]) => pattern.test(text))?.[2];
  return way === undefined ? text : `${text}; ${way}`;
}
