import type { FailureReason } from '../api/reasons.js';

/**
 * Texts of kubelet 1.36 and containerd 2.4 by what they mean. First match wins. Denials stand before absence:
 * Docker Hub says "repository does not exist or may require authorization" when it denies. What a node says of its own
 * snapshotter stands before both, since it ends in "not found" too and no registry can mend it.
 */
const TEXTS: readonly (readonly [RegExp, FailureReason])[] = [
  [/SignatureValidationFailed|signature validation failed|source image rejected/i, 'SignatureInvalid'],
  [/no processor for media-?type|unsupported diff media type/i, 'FormatUnreadable'],
  // Layers were unpacked for another snapshotter and their blobs thrown away: the content store says so, not the registry.
  [/failed to (pull and )?unpack image\b.*content digest sha256:\S+ not found/is, 'ImageStoreConflict'],
  [/no space left on device|disk quota exceeded|not enough (disk|space)|insufficient (disk|storage)/i, 'InsufficientDisk'],
  [
    /no match for platform|no matching manifest|does not provide the specified platform|image operating system .* cannot be used/i,
    'PlatformMissing',
  ],
  [
    /\b401\b|\b403\b|unauthorized|forbidden|no basic auth credentials|authentication required|authorization failed|access denied|denied:/i,
    'AuthDenied',
  ],
  [/\b404\b|not found|manifest unknown|name unknown|does not exist/i, 'ImageNotFound'],
  [
    /connection refused|no such host|server misbehaving|handshake timeout|i\/o timeout|\b(429|5\d\d)\b|too many requests|tls:|x509|EOF|connection reset|network is unreachable|deadline exceeded/i,
    'RegistryError',
  ],
];

/** Reasons that kubelets give by themselves, whatever the text. */
const REASONS: Readonly<Record<string, FailureReason>> = {
  InvalidImageName: 'Unparsable',
  RegistryUnavailable: 'RegistryError',
  SignatureValidationFailed: 'SignatureInvalid',
  ErrImageNeverPull: 'PullFailed',
};

/** What a waiting container's reason and message say about the image. Total; what is not recognised is PullFailed. */
export function classifyPullError(reason: string, message: string): FailureReason {
  const named = REASONS[reason];
  if (named !== undefined) return named;
  return TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? 'PullFailed';
}

/** Whether a pull was put off by the kubelet's own limit of pulls begun in a second (registryPullQPS): it is begun a moment later. */
export function isPutOff(message: string): boolean {
  return /pull QPS exceeded/i.test(message);
}

/** Reasons of kubelets for Pods that they will not run or ran no longer, by what they mean. First match wins. */
const ENDS: readonly (readonly [RegExp, FailureReason])[] = [
  [/^OutOf/, 'NoRoom'],
  [/^(Evicted|Preempt\w*|TerminationByKubelet)$/, 'Evicted'],
  [/^(NodeLost|NodeShutdown|Shutdown|Terminated)$/, 'NodeLost'],
];

/** What the reason of a Pod that has ended says about its node. Total; what is not recognised is Rejected. */
export function classifyEnd(reason = ''): FailureReason {
  return ENDS.find(([pattern]) => pattern.test(reason))?.[1] ?? 'Rejected';
}

/** What the scheduler's words say about a Pod that is pinned to one node: no room there, or something else that keeps it out. */
export function classifyUnplaced(message: string): FailureReason {
  return /too many pods|insufficient /i.test(message) ? 'NoRoom' : 'Rejected';
}
