import { expect, test } from '@jest/globals';
import { Narrator } from '../../../demo/narrator.js';

function tell(colour: boolean, story: (narrator: Narrator) => void): { text: string; narrator: Narrator } {
  let text = '';
  const narrator = new Narrator({ colour, width: 80 }, { write: (more) => (text += more) });
  story(narrator);
  return { text, narrator };
}

test('a step is told and entered in the book with its own time', () => {
  const { text, narrator } = tell(false, (n) => n.step('blocker-ended', 'quota is free', 42));
  expect(text).toMatch(/✓ quota is free\n$/);
  expect(narrator.seen).toEqual(new Map([['blocker-ended', 42]]));
});

test('in a pipe the bar is one line at each tenth', () => {
  const { text } = tell(false, (n) => [0, 0.01, 0.02, 0.11, 0.12, 1].forEach((share) => n.progress(share, 'x')));
  expect(text.trimEnd().split('\n')).toHaveLength(3);
  expect(text).not.toContain('\r');
});

test('on a terminal the bar is drawn over itself and ended before the next line', () => {
  const { text } = tell(true, (n) => {
    n.progress(0.1, 'a');
    n.progress(0.2, 'b');
    n.say('next');
  });
  expect(text.split('\r')).toHaveLength(3);
  expect(text).toMatch(/b\nnext\n$/);
});
