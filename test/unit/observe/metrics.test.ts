import { describe, expect, test } from '@jest/globals';
import { Metrics, combinations } from '../../../src/observe/metrics.js';

describe('Metrics', () => {
  test('exports every value of a closed label as zero before anything happened', async () => {
    const metrics = new Metrics();
    metrics.counter('decisions_total', 'Decisions.', { outcome: ['pinned', 'no-policy'] });
    metrics.gauge('leader', 'Leading.', { lease: ['controller'] });
    metrics.histogram('seconds', 'Time.', { result: ['ok'] }, [1]);
    const text = await metrics.text();
    expect(text).toContain('decisions_total{outcome="pinned"} 0');
    expect(text).toContain('decisions_total{outcome="no-policy"} 0');
    expect(text).toContain('leader{lease="controller"} 0');
    expect(text).toContain('seconds_count{result="ok"} 0');
  });

  test('exports nothing for an open label until it is used', async () => {
    const metrics = new Metrics();
    const counter = metrics.counter('adds_total', 'Adds.', ['name']);
    expect(await metrics.text()).not.toContain('adds_total{');
    counter.inc({ name: 'prewarm' });
    expect(await metrics.text()).toContain('adds_total{name="prewarm"} 1');
  });

  test('gives the same metric for the same name and keeps its value', async () => {
    const metrics = new Metrics();
    const sets = { lease: ['controller'] };
    metrics.gauge('leader', 'Leading.', sets).set({ lease: 'controller' }, 1);
    expect(metrics.gauge('leader', 'Leading.', sets)).toBe(metrics.gauge('leader', 'Leading.', sets));
    expect(await metrics.text()).toContain('leader{lease="controller"} 1');
  });

  test('two processes in one test do not share numbers', async () => {
    const [a, b] = [new Metrics(), new Metrics()];
    a.counter('x_total', 'X.').inc();
    b.counter('x_total', 'X.');
    expect(await a.text()).toContain('x_total 1');
    expect(await b.text()).toContain('x_total 0');
  });
});

test('combinations of no label are one empty row, of an empty set none', () => {
  expect(combinations({})).toEqual([{}]);
  expect(combinations({ a: [] })).toEqual([]);
  expect(combinations({ a: ['1', '2'], b: ['3'] })).toEqual([
    { a: '1', b: '3' },
    { a: '2', b: '3' },
  ]);
});
