/** Closed sets of reasons of conditions, failures and events; docs/reasons.md explains each. */

/** Reasons of ImagePrewarm condition Ready. */
export const READY_REASONS = [
  'AllNodesWarm',
  'Pending',
  'PullingImages',
  'QueuePosition',
  'WaitingForSlot',
  'NoCandidateNodes',
  'ResolvingImages',
  'ImageMoved',
  'Suspended',
  'Observing',
  'SwitchedOff',
  'Invalid',
  'ImagesLeftOut',
  'AuthDenied',
  'ImageNotFound',
  'PlatformMissing',
  'RegistryError',
  'InsufficientDisk',
  'PullersGated',
  'PullersRejected',
  'PullFailed',
  'NodeLost',
  'DeadlineExceeded',
  'Finished',
] as const;
export type ReadyReason = (typeof READY_REASONS)[number];

/** Why a gang was let go; reasons of condition Released. */
export const RELEASE_REASONS = [
  'WarmVerified',
  'DeadlineExceeded',
  'Hopeless',
  'OptedOut',
  'QuotaReservedCold',
  'SwitchedOff',
] as const;
export type ReleaseReason = (typeof RELEASE_REASONS)[number];

/** Why a hold ended; SentBack: its check gives the quota back in time (`onTimeout: Retry`). Label of a metric. */
export const HOLD_ENDS = [...RELEASE_REASONS, 'SentBack'] as const;
export type HoldEndReason = (typeof HOLD_ENDS)[number];

/** Why an image is not warm on a node; `status.failures[].reason`. */
export const FAILURE_REASONS = [
  'AuthDenied',
  'ImageNotFound',
  'PlatformMissing',
  'RegistryError',
  'InsufficientDisk',
  'FormatUnreadable',
  'ImageStoreConflict',
  'EmptyImage',
  'PullFailed',
  'SignatureInvalid',
  'TimedOut',
  'Stalled',
  'NodeNotReady',
  'NodeLost',
  'NodeNotEligible',
  'Gated',
  'NoRoom',
  'NoPod',
  'Evicted',
  'QuotaExceeded',
  'Rejected',
  'Unparsable',
  'DigestMismatch',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];

/** Failures that every node would meet alike: growth of a pull stops after the first. */
export const COMMON_FAILURES: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'AuthDenied',
  'ImageNotFound',
  'PlatformMissing',
  'SignatureInvalid',
  'QuotaExceeded',
  'Unparsable',
  'DigestMismatch',
]);
