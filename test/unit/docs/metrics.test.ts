import { readFileSync, readdirSync } from 'node:fs';
import { expect, test } from '@jest/globals';

const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
const source = files.map((path) => readFileSync(`src/${path}`, 'utf8'));
const metrics = [...new Set(source.flatMap((text) => text.match(/(?<=')(?:harbinger|workqueue)_[a-z_]+(?=')/g) ?? []))].sort();

test('docs/metrics.md has a line for each metric of the source, and for no other', () => {
  const page = readFileSync('docs/metrics.md', 'utf8');
  expect(metrics.length).toBeGreaterThan(30);
  expect([...page.matchAll(/^\| `([a-z_]+)` \|/gm)].map((m) => m[1]).sort()).toEqual(metrics);
});

test('alerts and remedies of the runbook ask only for metrics that exist', () => {
  const page = readFileSync('docs/runbook.md', 'utf8');
  // `harbinger_prewarms{` and `harbinger_admission_duration_seconds_bucket[`: names with what stands behind them in an expression.
  const named = [...page.matchAll(/\b(?:harbinger|workqueue)_[a-z_]+/g)].map((m) => m[0].replace(/_(bucket|sum|count)$/, ''));
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !metrics.includes(name))).toEqual([]);
});

test('values of labels in the expressions of the runbook exist', () => {
  const page = readFileSync('docs/runbook.md', 'utf8');
  const values = [...page.matchAll(/(?:result|reason)[=!]?~?"([^"]+)"/g)].flatMap((m) => (m[1] ?? '').split(/\\?\|/));
  expect(values).toContain('failed');
  expect(values.filter((value) => !source.some((text) => text.includes(`'${value}'`)))).toEqual([]);
});
