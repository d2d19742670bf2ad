import { describe, expect, test } from '@jest/globals';
import { timelineOf } from '../../../../src/cli/timeline/model.js';
import { progressBar, renderText, styleOf, table } from '../../../../src/cli/timeline/text.js';
import { COLD, OURS } from './fixture.js';

describe('styleOf', () => {
  test.each([
    ['a terminal', { isTTY: true }, {}, true],
    ['a pipe', {}, {}, false],
    ['a terminal with NO_COLOR', { isTTY: true }, { NO_COLOR: '1' }, false],
    ['a terminal with an empty NO_COLOR', { isTTY: true }, { NO_COLOR: '' }, true],
    ['a dumb terminal', { isTTY: true }, { TERM: 'dumb' }, false],
  ])('%s', (_name, stream, env, colour) => {
    expect(styleOf(stream, env).colour).toBe(colour);
  });
});

const plain = styleOf({}, {});

test.each([
  [0, '[..........] 0/3'],
  [0.5, '[#####.....] 0/3'],
  [7, '[##########] 0/3'],
])('a progress bar at %p', (share, text) => {
  expect(progressBar(plain, share, '0/3', 10)).toBe(text);
});

test('a table pads each column to its widest cell and leaves no trailing blanks', () => {
  expect(
    table([
      ['NAME', 'X'],
      ['longer-name', ''],
    ]),
  ).toBe('NAME         X\nlonger-name');
});

describe('renderText', () => {
  const lines = renderText(timelineOf({ gangs: [COLD, OURS], setting: 'here' }), plain).split('\n');

  test('shows the waits, and a short one is still a mark', () => {
    expect(lines.find((l) => l.startsWith('Cold'))).toMatch(/\|!{20,}=+ {2}54 s$/);
    expect(lines.find((l) => l.startsWith('Harbinger'))).toMatch(/-{20,}\|!=+ {2}1\.6 s$/);
  });

  test('stays within the width and writes no escape codes into a pipe', () => {
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(plain.width);
    // eslint-disable-next-line no-control-regex -- the escape character is what must not be there
    expect(lines.join('\n')).not.toMatch(/\u001b/);
  });
});
