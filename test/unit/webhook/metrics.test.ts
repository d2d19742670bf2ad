import { expect, test } from '@jest/globals';
import { OUTCOMES } from '../../../src/api/outcomes.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';

const linesOf = async (metrics: Metrics, name: string): Promise<string[]> =>
  (await metrics.text()).split('\n').filter((l) => l.startsWith(`${name}{`));

test('each outcome is there from the start, so that an alert can see that it never happened', async () => {
  const metrics = new Metrics();
  const admission = new AdmissionMetrics(metrics, () => 0);
  const zero = await linesOf(metrics, 'harbinger_admission_decisions_total');
  expect(zero).toEqual(OUTCOMES.map((o) => `harbinger_admission_decisions_total{outcome="${o}",format="none",policy="none"} 0`));
  admission.decision('accelerated', { format: 'nydus', policy: 'train' });
  expect(await metrics.text()).toContain(
    'harbinger_admission_decisions_total{outcome="accelerated",format="nydus",policy="train"} 1',
  );
});

test('a thousand policies are a hundred label values and one for the rest', async () => {
  const metrics = new Metrics();
  const admission = new AdmissionMetrics(metrics, () => 0);
  for (let i = 0; i < 1_000; i++) admission.decision('accelerated', { format: 'estargz', policy: `p${i}` });
  admission.decision('accelerated', { format: 'estargz', policy: 'p7' });
  const lines = await linesOf(metrics, 'harbinger_admission_decisions_total');
  const values = new Map(lines.map((l) => [/policy="([^"]+)"/.exec(l)?.[1] ?? '', Number(l.split(' ').at(-1))]));
  expect([values.size, values.get('other'), values.get('p7'), values.get('p99')]).toEqual([102, 900, 2, 1]);
});

test('the time of an admission is told by its result, from half a millisecond to two and a half seconds', async () => {
  const metrics = new Metrics();
  let now = 0;
  const stop = new AdmissionMetrics(metrics, () => now).start();
  now = 0.4;
  stop('mutated');
  const lines = await linesOf(metrics, 'harbinger_admission_duration_seconds_bucket');
  const mutated = lines.filter((l) => l.includes('result="mutated"'));
  expect(mutated[0]).toBe('harbinger_admission_duration_seconds_bucket{le="0.0005",result="mutated"} 1');
  expect(mutated.at(-2)).toBe('harbinger_admission_duration_seconds_bucket{le="2.5",result="mutated"} 1');
});
