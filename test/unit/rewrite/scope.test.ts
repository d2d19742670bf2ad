import { expect, test } from '@jest/globals';
import { LABEL } from '../../../src/api/names.js';
import type { Scope } from '../../../src/rewrite/scope.js';
import { outOfScope } from '../../../src/rewrite/scope.js';

test.each<[Scope, string | undefined, string | undefined, string]>([
  ['LabelledNamespaces', 'enabled', undefined, ''],
  ['LabelledNamespaces', undefined, 'namespace team is not labelled harbinger.dev/accelerate=enabled', 'label it'],
  ['LabelledNamespaces', 'disabled', 'namespace team is not labelled harbinger.dev/accelerate=enabled', 'label it'],
  ['AllNamespaces', undefined, undefined, ''],
  ['AllNamespaces', 'enabled', undefined, ''],
  ['AllNamespaces', 'disabled', 'namespace team is labelled harbinger.dev/accelerate=disabled', 'remove label'],
])('with scope %s and label %s the problem is %s', (scope, label, problem, way) => {
  const labels = label === undefined ? {} : { [LABEL.accelerate]: label };
  const out = outOfScope(scope, { name: 'team', labels });
  expect(out?.problem).toBe(problem);
  expect(out?.way ?? '').toContain(way);
});
