import { expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { projectPullerPod } from '../../../src/preheat/backends/daemonset/project.js';
import { pullState } from '../../../src/preheat/evidence.js';
import { pullerOf } from '../../../src/preheat/puller.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';

const IMAGE = `registry.example.com/train@sha256:${'a'.repeat(64)}`;
const CREATED = '2026-01-01T00:00:00Z';
const NOW = Date.parse(CREATED) + 20_000;
const node = { name: 'n', ready: true, createdAt: 0 } as NodeFacts;

const pod = (containerStatus: object | undefined, deleting: boolean): KubeObject & Record<string, unknown> => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', uid: 'u', creationTimestamp: CREATED, ...(deleting ? { deletionTimestamp: CREATED } : {}) },
  spec: { nodeName: 'n', volumes: [{ name: 'image', image: { reference: IMAGE } }] },
  status: { phase: 'Running', containerStatuses: containerStatus === undefined ? [] : [containerStatus] },
});

const terminated = { terminated: { exitCode: 0, reason: 'Completed', startedAt: CREATED, finishedAt: CREATED } };
const neverBegan = { terminated: { exitCode: 137, reason: 'ContainerStatusUnknown', startedAt: null, finishedAt: null } };
const waiting = { waiting: { reason: 'ContainerCreating' } };

// A pull that is counted without there being one keeps the next image from the node for many minutes.
test.each<[string, object | undefined, boolean, boolean]>([
  ['a puller that waits for its image', { state: waiting }, false, true],
  ['a puller that was deleted in mid-pull', { state: waiting }, true, true],
  ['a puller that was deleted before its kubelet said anything', undefined, true, true],
  ['a puller that was ended before it began', { state: neverBegan }, true, true],
  ['a running puller', { state: { running: { startedAt: CREATED } }, started: true }, false, false],
  ['a puller that ran and is being deleted', { state: terminated }, true, false],
  ['a puller that ran, seen last just before it was gone', { state: terminated }, false, false],
  ['a puller between two runs', { state: waiting, lastState: terminated, restartCount: 1 }, true, false],
])('%s: bytes may flow: %#', (_case, status, deleting, inFlight) => {
  const puller = pullerOf(IMAGE);
  if (puller === undefined) throw new Error('the reference of the test is not one');
  expect(pullState(puller, projectPullerPod(pod(status, deleting)), node, { now: NOW, deadlineMs: 600_000 }).inFlight).toBe(
    inFlight,
  );
});
