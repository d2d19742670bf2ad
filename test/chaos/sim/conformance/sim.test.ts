import { beforeAll, describe, expect, test } from '@jest/globals';
import { SimClient } from '../client.js';
import { Random } from '../random.js';
import { Store } from '../store/store.js';
import { Host, Timeline } from '../timeline.js';
import { TRACE, answerOf, type Answer } from './trace.js';

// The same trace runs against a real API server: test/integration/kube/conformance-cases.ts.
describe('the simulated API server', () => {
  const answers: Answer[] = [];
  beforeAll(async () => {
    const [timeline, random] = [new Timeline(Date.parse('2026-01-01T00:00:00Z')), new Random(1)];
    const store = new Store({ now: () => timeline.now, random: () => random.next() });
    store.compactedAt = store.version;
    const client = new SimClient({ store, timeline, host: new Host('test', timeline), random, fault: () => undefined });
    for (const step of TRACE) {
      const answer = answerOf(step, client, 'conformance');
      await timeline.run(timeline.now + 60_000);
      answers.push(await answer);
    }
  });

  test.each(TRACE.map((step, i) => [step.title, i, step.expected] as const))('%s', (_title, i, expected) =>
    expect(answers[i]).toEqual(expected),
  );
});
