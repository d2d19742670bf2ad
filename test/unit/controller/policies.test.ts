import { describe, expect, test } from '@jest/globals';
import type { Action } from '../../../src/controller/actions.js';
import { PolicyReconciler, decidePolicyStatus, projectPolicy } from '../../../src/controller/policies.js';
import type { PolicyView } from '../../../src/controller/policies.js';
import type { RawObject } from '../../../src/kube/reflector.js';
import { FakeClock } from '../kube/fake-clock.js';

const T0 = '2026-01-01T00:00:00Z';
const T1 = '2026-01-02T00:00:00Z';
const variants = [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }];
const GOOD = { variants };
const BAD = {
  variants,
  match: { images: ['r.example/[a'], namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } },
};

const view = (spec: unknown, generation: number, status?: unknown): PolicyView =>
  projectPolicy({
    metadata: { name: 'p', generation },
    spec,
    ...(status === undefined ? {} : { status }),
  } as unknown as RawObject);

describe('the status of an AccelerationPolicy', () => {
  test('a policy that can be evaluated is Ready', () => {
    expect(decidePolicyStatus(view(GOOD, 1), T0)).toMatchObject({
      observedGeneration: 1,
      conditions: [{ type: 'Ready', status: 'True', reason: 'Valid', lastTransitionTime: T0, observedGeneration: 1 }],
    });
  });

  test('a policy with a mistake says which, in the words of the webhook', () => {
    const [condition] = decidePolicyStatus(view(BAD, 1), T0)?.conditions ?? [];
    expect(condition).toMatchObject({ status: 'False', reason: 'Invalid' });
    expect(condition?.message).toMatch(/^AccelerationPolicy p is ignored: spec\.match/);
  });

  test('what stands there already is not written again', () => {
    const status = decidePolicyStatus(view(BAD, 1), T0);
    expect(decidePolicyStatus(view(BAD, 1, status), T1)).toBeUndefined();
  });

  test('an edit that changes nothing about it moves the generation and not the time', () => {
    const status = decidePolicyStatus(view(GOOD, 1), T0);
    const next = decidePolicyStatus(view({ ...GOOD, priority: 5 }, 2, status), T1);
    expect(next).toMatchObject({ observedGeneration: 2, conditions: [{ lastTransitionTime: T0, observedGeneration: 2 }] });
  });

  test('a mended policy becomes Ready', () => {
    const status = decidePolicyStatus(view(BAD, 1), T0);
    expect(decidePolicyStatus(view(GOOD, 2, status), T1)?.conditions).toMatchObject([{ status: 'True', lastTransitionTime: T1 }]);
  });

  test('conditions of others are left to them', () => {
    const others = { conditions: [{ type: 'Seen', status: 'True', reason: 'X', message: '', lastTransitionTime: T0 }] };
    expect(decidePolicyStatus(view(GOOD, 1, others), T0)?.conditions.map((c) => c.type)).toEqual(['Ready']);
  });
});

describe('PolicyReconciler', () => {
  test.each<[string, 'On' | 'Observe' | 'Off', PolicyView | undefined, number]>([
    ['writes', 'On', view(BAD, 1), 1],
    ['writes in mode Observe too: it changes nothing for Pods', 'Observe', view(BAD, 1), 1],
    ['writes nothing in mode Off', 'Off', view(BAD, 1), 0],
    ['writes nothing for a policy that is gone', 'On', undefined, 0],
  ])('%s', async (_, mode, policy, writes) => {
    const done: Action[] = [];
    const actuator = { perform: (action: Action) => (done.push(action), Promise.resolve(undefined)) };
    const caches = { policies: { get: () => policy } };
    await new PolicyReconciler({ caches, actuator, mode: () => mode, clock: new FakeClock() }).reconcile('p');
    expect(done.map((a) => a.type)).toEqual(Array.from({ length: writes }, () => 'write-policy-status'));
  });
});
