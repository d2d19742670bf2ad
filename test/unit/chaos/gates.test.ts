import { expect, test } from '@jest/globals';
import type { Change, Raw } from '../../chaos/invariants/index.js';
import { boundedGates } from '../../chaos/invariants/index.js';
import { added, deleted, modified } from './histories.js';

const GATES = 'kueue.x-k8s.io/admission-gated-by';
const workload = (gates?: string): Raw => ({
  apiVersion: '',
  kind: 'Workload',
  metadata: { namespace: 'team', name: 'w', uid: 'w1', annotations: gates === undefined ? {} : { [GATES]: gates } },
});
const OURS = 'other.example.com/quota,harbinger.dev/image-prewarm';
const THEIRS = 'other.example.com/quota';

test.each<[string, Change[], number | undefined, number]>([
  ['a gate that goes in time', [added(0, workload(OURS)), modified(70_000, workload(THEIRS))], undefined, 0],
  ['a gate that goes too late', [added(0, workload(OURS)), modified(70_001, workload(THEIRS))], undefined, 1],
  ['a gate that never goes', [added(0, workload(OURS))], undefined, 1],
  ['a gate for as long as the gang asked', [added(0, workload(OURS)), modified(130_000, workload())], 120_000, 0],
  ['a gate for longer than the gang asked', [added(0, workload(OURS)), modified(130_001, workload())], 120_000, 1],
  ['a job that went with its gate', [added(0, workload(OURS)), deleted(5_000, workload(OURS))], undefined, 0],
  ['a gate of somebody else', [added(0, workload(THEIRS))], undefined, 0],
])('%s: %#', (_case, history, asked, broken) => {
  const found = boundedGates({ history, gatedMs: 60_000, boundMs: 10_000, asked: () => asked, until: 900_000 });
  expect(found).toHaveLength(broken);
});
