import type { FailureReason } from '../api/reasons.js';

/**
 * Texts of kubelet 1.36 and containerd 2.4 by what they mean. First match wins. Denials stand before absence:
 * Docker Hub says "repository does not exist or may require authorization" when it denies.
 */
const TEXTS: readonly (readonly [RegExp, FailureReason])[] = [
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
    /connection refused|no such host|i\/o timeout|\b(429|5\d\d)\b|too many requests|tls:|x509|EOF|connection reset|network is unreachable|deadline exceeded/i,
    'RegistryError',
  ],
];

/** Reasons that kubelets give by themselves, whatever the text. */
const REASONS: Readonly<Record<string, FailureReason>> = {
  InvalidImageName: 'Unparsable',
  RegistryUnavailable: 'RegistryError',
  ErrImageNeverPull: 'PullFailed',
};

/** What a waiting container's reason and message say about the image. Total; what is not recognised is PullFailed. */
export function classifyPullError(reason: string, message: string): FailureReason {
  const named = REASONS[reason];
  if (named !== undefined) return named;
  return TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? 'PullFailed';
}
