import { expect, test } from '@jest/globals';
import type { Caches } from '../../../src/controller/caches.js';
import { tellGreedy } from '../../../src/controller/pullers/greedy.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerPod, projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { pod, puller } from '../preheat/fixtures.js';

const OWN = 'harbinger-system';
const made = pullerManifest(puller(), ['n1'], { namespace: OWN, program: 'p' });

/** What is told of Pods, one after the other. */
function told(pods: (PullerPod | 'the set goes')[]): unknown[] {
  const [lines, set] = [[] as unknown[], projectPullerSet({ ...made, metadata: { ...made.metadata, uid: 'ds' } })];
  let onPod: (key: string, now: PullerPod) => void = () => undefined;
  let onSet: (key: string, now: PullerSet | undefined) => void = () => undefined;
  const caches = {
    pods: { onChange: (handler: typeof onPod) => void (onPod = handler) },
    sets: { onChange: (handler: typeof onSet) => void (onSet = handler), list: () => [set] },
  };
  tellGreedy(caches as unknown as Caches, OWN, { warn: (fields: unknown) => void lines.push(fields) } as never);
  for (const one of pods) {
    if (one === 'the set goes') onSet(`${OWN}/${set.name}`, undefined);
    else onPod('', one);
  }
  return lines;
}

test.each<[string, (PullerPod | 'the set goes')[], number]>([
  ['as they were made', [pod()], 0],
  ['with requests of somebody, once a set', [pod({ asks: 'cpu 4' }), pod({ asks: 'cpu 4', uid: 'p2' })], 1],
  ['again for a set that was made anew', [pod({ asks: 'cpu 4' }), 'the set goes', pod({ asks: 'cpu 4' })], 2],
  ['of somebody else, with our label', [pod({ asks: 'cpu 4', ownerUid: 'x' }), pod({ asks: 'cpu 4', namespace: 'team' })], 0],
])('pullers that ask for resources are told: %s', (_, pods, lines) => expect(told(pods)).toHaveLength(lines));

test('a puller asks for nothing, whatever zeros it names, and for what was added to it', () => {
  const raw = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: made.spec.template.spec };
  expect(projectPullerPod(raw).asks).toBeUndefined();
  const resources = { requests: { cpu: '250m' } };
  expect(projectPullerPod({ ...raw, spec: { ...raw.spec, containers: [{ resources }] } } as never).asks).toBe('cpu 0.25');
  expect(projectPullerPod({ ...raw, spec: { ...raw.spec, overhead: { cpu: '1' } } } as never).asks).toBe('cpu 1');
});
