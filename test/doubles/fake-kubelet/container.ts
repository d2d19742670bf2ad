import { EXIT_CODE, RUN_SECONDS } from './knobs.js';
import type { ContainerSpec } from './status.js';

/** How a container's process behaves; `seconds` absent: it runs until it is told to end. */
export interface Behaviour {
  seconds?: number;
  exitCode: number;
}

// The last command decides whether the process ends at all: a loop of sleeps does not.
const ENDS = /(?:^|[\s;&|])(?:sleep [\d.]+|exit (?<code>\d+)|true|(?<fails>false)|echo [^;&|]*)["'\s]*$/;

/**
 * Nothing is executed, so the process is guessed from its command line: one that ends in `sleep N`, `exit N`, `true`, `false` or an `echo` runs
 * as long as its sleeps add up to. Annotations on the Pod come first.
 */
export function behaviourOf(spec: ContainerSpec, annotations: Readonly<Record<string, string>> = {}): Behaviour {
  const line = [...(spec.command ?? []), ...(spec.args ?? [])].join(' ');
  const end = ENDS.exec(line);
  const guessed = end?.groups?.['fails'] ? 1 : Number(end?.groups?.['code'] ?? 0);
  const exitCode = Number(annotations[EXIT_CODE] ?? guessed);
  const told = annotations[RUN_SECONDS];
  if (told !== undefined) return { seconds: Number(told), exitCode };
  if (!end) return { exitCode };
  const seconds = [...line.matchAll(/\bsleep ([\d.]+)/g)].reduce((sum, match) => sum + Number(match[1]), 0);
  return { seconds, exitCode };
}

/** Image of a container or of a volume that it mounts. */
export interface Wanted {
  reference: string;
  policy: 'Always' | 'IfNotPresent' | 'Never';
}

interface Volume {
  name: string;
  image?: { reference?: string; pullPolicy?: string };
}

/** What has to be on the node before the container can start: its image volumes first, as the kubelet pulls them. */
export function wantedBy(spec: ContainerSpec, volumes: readonly Volume[] = []): Wanted[] {
  const mounted = new Set((spec.volumeMounts ?? []).map((mount) => mount.name));
  const images = volumes.flatMap((volume) => (mounted.has(volume.name) && volume.image?.reference ? [volume.image] : []));
  return [
    ...images.map((image) => ({ reference: image.reference ?? '', policy: policyOf(image.pullPolicy, image.reference) })),
    { reference: spec.image, policy: policyOf(spec.imagePullPolicy, spec.image) },
  ];
}

// The API server fills policies in; this is for objects that were written before it did.
function policyOf(policy: string | undefined, reference = ''): Wanted['policy'] {
  if (policy === 'Always' || policy === 'Never' || policy === 'IfNotPresent') return policy;
  return /:latest$|^[^@:]*$/.test(reference) ? 'Always' : 'IfNotPresent';
}
