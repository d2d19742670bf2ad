import { ANNOTATION } from '../../../src/api/names.js';
import type { Answer, Situation } from '../../../src/rewrite/decide.js';
import type { PodView } from '../../../src/rewrite/pod-view.js';
import { viewPod } from '../../../src/rewrite/pod-view.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';
import { inOrder, readPolicy } from '../../../src/rewrite/policy-match.js';
import { readRecord } from '../../../src/rewrite/record.js';
import type { GangRecord } from '../../../src/rewrite/record.js';

export const DIGEST = `sha256:${'a'.repeat(64)}`;
export const OTHER = `sha256:${'b'.repeat(64)}`;

export interface RawPod {
  apiVersion: string;
  kind: string;
  metadata: Record<string, unknown>;
  spec: Record<string, unknown>;
}

/** A Pod of the given images, as `name: image`. */
export function makePod(
  images: Record<string, string>,
  metadata: Record<string, unknown> = {},
  extra: Record<string, unknown> = {},
): RawPod {
  const containers = Object.entries(images).map(([name, image]) => ({ name, image, imagePullPolicy: 'IfNotPresent' }));
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', ...metadata }, spec: { containers, ...extra } };
}

export function mustView(pod: unknown): PodView {
  const view = viewPod(pod);
  if (view === undefined) throw new Error('the Pod cannot be read');
  return view;
}

export function makePolicy(name: string, spec: Record<string, unknown> = {}): Policy {
  const variants = [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }];
  const reading = readPolicy({ metadata: { name, generation: 1 }, spec: { variants, ...spec } });
  if (!reading.ok) throw new Error(reading.problem);
  return reading.policy;
}

export function makeRecord(source: string, resolved: string, outcome = 'pinned', more: Record<string, unknown> = {}): GangRecord {
  return readRecord('team/gang', [{ images: [{ source, resolved, outcome, digest: DIGEST, ...more }] }]);
}

export function makeSituation(pod: RawPod, parts: Partial<Omit<Situation, 'pod'>> = {}): Situation {
  return {
    pod: mustView(pod),
    namespace: { name: 'team', labels: {}, annotations: {} },
    records: [],
    chainFor: () => [undefined],
    rewrite: { owners: ['*'], imageVolumes: false },
    ...parts,
    policies: inOrder(parts.policies ?? []),
  };
}

/** The answer "there is a variant" for one image under policy `p`. */
export function variantOf(source: string, image: string): [string, Answer] {
  return [`p/1 ${source}  -`, { outcome: 'accelerated', image, format: 'estargz', sourceDigest: DIGEST }];
}

export function decisionsOf(pod: { metadata: Record<string, unknown> }): Record<string, unknown>[] {
  const annotations = pod.metadata['annotations'] as Record<string, string> | undefined;
  return JSON.parse(annotations?.[ANNOTATION.decisions] ?? '[]') as Record<string, unknown>[];
}
