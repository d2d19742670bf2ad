import type { ContainerState, PullerPod } from '../../../src/preheat/evidence.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { pullerOf } from '../../../src/preheat/puller.js';

export const T0 = Date.parse('2026-01-01T00:00:00Z');
const DIGEST = (letter: string): string => `sha256:${letter.repeat(64)}`;

/** An image by digest; the letter must be hexadecimal. */
export const image = (letter = 'a', registry = 'reg.example.com'): string => `${registry}/team/train@${DIGEST(letter)}`;

export function puller(letter = 'a', options: Parameters<typeof pullerOf>[1] & { registry?: string } = {}): Puller {
  const made = pullerOf(image(letter, options.registry), options);
  if (made === undefined) throw new Error('the fixture is no image by digest');
  return made;
}

/** A puller Pod that proves its image warm, changed as a test needs it. */
export const pod = (change: Partial<PullerPod> = {}): PullerPod => ({
  namespace: 'harbinger-system',
  name: 'puller-x-1',
  uid: 'p1',
  hash: puller().hash,
  ownerUid: 'ds',
  node: 'n1',
  image: image(),
  createdAt: T0,
  deleting: false,
  phase: 'Running',
  gates: [],
  container: { started: true, hasRun: true, restarts: 0, runningSince: T0 + 5_000 },
  ...change,
});

export const waiting = (reason: string, message = ''): ContainerState => ({
  started: false,
  hasRun: false,
  restarts: 0,
  waiting: { reason, message },
});
