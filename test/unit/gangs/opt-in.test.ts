import { describe, expect, test } from '@jest/globals';
import type { OptInSources } from '../../../src/gangs/opt-in.js';
import { optIn } from '../../../src/gangs/opt-in.js';

const say = (prewarm?: string, hold?: string): Record<string, string> => ({
  ...(prewarm === undefined ? {} : { 'harbinger.dev/prewarm': prewarm }),
  ...(hold === undefined ? {} : { 'harbinger.dev/prewarm-hold': hold }),
});

describe('whether a gang is prewarmed', () => {
  const rows: [string, OptInSources, { optedIn: boolean; source?: string; holdMs?: number }][] = [
    ['nobody says anything: not opted in', {}, { optedIn: false }],
    ['the namespace says yes', { namespace: say('true') }, { optedIn: true, source: 'namespace' }],
    [
      'the template wins over the namespace',
      { templates: [say('false')], namespace: say('true') },
      { optedIn: false, source: 'template' },
    ],
    ['the job wins over the template', { job: say('true'), templates: [say('false')] }, { optedIn: true, source: 'job' }],
    ['the Workload wins over the job', { workload: say('false'), job: say('true') }, { optedIn: false, source: 'workload' }],
    [
      'of two templates the first that says something counts',
      { templates: [{}, say('true'), say('false')] },
      { optedIn: true, source: 'template' },
    ],
    [
      'hold and prewarm may come from different objects',
      { job: say('true'), namespace: say(undefined, '10m') },
      { optedIn: true, source: 'job', holdMs: 600_000 },
    ],
    [
      'a hold of an opted-out gang is read all the same',
      { job: say('false', '5s') },
      { optedIn: false, source: 'job', holdMs: 5000 },
    ],
    [
      'a hold of 0 is a word: it does not fall back to the namespace',
      { job: say('true', '0'), namespace: say(undefined, '1h') },
      { optedIn: true, source: 'job', holdMs: 0 },
    ],
    ['no hold is longer than a day', { job: say('true', '9999h') }, { optedIn: true, source: 'job', holdMs: 86_400_000 }],
  ];
  test.each(rows)('%s', (_title, sources, expected) => {
    const { problems, ...answer } = optIn(sources);
    expect(answer).toEqual(expected);
    expect(problems).toEqual([]);
  });

  const bad: [string, OptInSources, string][] = [
    [
      'a typo near the gang is not opted in, whatever the namespace says',
      { job: say('flase'), namespace: say('true') },
      'job is "flase"',
    ],
    ['yes is not true', { templates: [say('yes')] }, 'template is "yes"'],
    ['the empty text is no word', { workload: say('') }, 'workload is ""'],
    ['True is not true', { namespace: say('True') }, 'namespace is "True"'],
  ];
  test.each(bad)('bad value: %s', (_title, sources, problem) => {
    const answer = optIn(sources);
    expect(answer.optedIn).toBe(false);
    expect(answer.problems).toEqual([expect.stringContaining(problem)]);
  });

  test.each(['ten minutes', '10', '-5m', '1e9s', ''])('bad hold %p counts as no hold and is told', (hold) => {
    const answer = optIn({ job: say('true', hold), namespace: say(undefined, '1h') });
    expect(answer).toMatchObject({ optedIn: true, holdMs: 0 });
    expect(answer.problems).toEqual([expect.stringContaining('must be a duration')]);
  });
});
