import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { KubeClient } from '../../../src/kube/client.js';
import { TRACE, answerOf, type Answer } from '../../chaos/sim/conformance/trace.js';
import type { Draft } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import type { Ground } from './ground.js';

/** The trace of calls on which the simulated API server of the chaos tests is built, against the real one. */
export function conformanceCases(ground: () => Ground): void {
  describe('the real API server, as the simulated one is built', () => {
    const answers: Answer[] = [];
    beforeAll(async () => {
      const { cluster } = ground();
      const crd = parse(readFileSync('manifests/crds/imageprewarms.yaml', 'utf8')) as Draft;
      await cluster.client.apply([crd]);
      await cluster.client.watchUntil('apiextensions.k8s.io/v1/CustomResourceDefinition', String(crd.metadata.name), (c) =>
        isTrue(c, 'Established'),
      );
      const namespace = await ground().namespace();
      const client = await KubeClient.fromKubeconfig(cluster.kubeconfig, { userAgent: 'conformance' });
      for (const step of TRACE) answers.push(await answerOf(step, client, namespace));
      await client.close();
    }, 150_000);

    test.each(TRACE.map((step, i) => [step.title, i, step.expected] as const))('%s', (_title, i, expected) =>
      expect(answers[i]).toEqual(expected),
    );
  });
}
