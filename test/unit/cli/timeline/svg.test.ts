import { describe, expect, test } from '@jest/globals';
import { timelineOf } from '../../../../src/cli/timeline/model.js';
import { renderSvg } from '../../../../src/cli/timeline/svg.js';
import { COLD, OURS, WARM } from './fixture.js';

const draw = (setting = '2 nodes'): string => renderSvg(timelineOf({ gangs: [COLD, OURS, WARM], floorSeconds: 50.3, setting }));

describe('renderSvg', () => {
  test('needs nothing from outside: no script, no link, no image, no font file', () => {
    const svg = draw();
    expect(svg).not.toMatch(/<script|<image|href=|@import|url\((?!#)|@font-face/);
    expect(svg.match(/https?:\/\/[^"]+/g)).toEqual(['http://www.w3.org/2000/svg']);
  });

  test('says each wait, the floor, and who pays for the pull', () => {
    const svg = draw();
    for (const words of ['54 s', '1.6 s', '1.3 s', 'floor 50 s', 'paid for by the wait', 'paid for by reserved accelerators'])
      expect(svg).toContain(words);
  });

  test('keeps text that looks like markup text', () => {
    const svg = draw('<b>&"registry"');
    expect(svg).toContain('&lt;b&gt;&amp;&quot;registry&quot;');
    expect(svg).not.toContain('<b>');
  });

  test('follows the dark setting of the reader', () => {
    expect(draw()).toContain('prefers-color-scheme: dark');
  });

  test('keeps all bars inside the picture', () => {
    for (const [, x, , width] of draw().matchAll(/<rect[^>]* x="([\d.-]+)" y="([\d.-]+)" width="([\d.-]+)"/g)) {
      expect(Number(x)).toBeGreaterThanOrEqual(0);
      expect(Number(x) + Number(width)).toBeLessThanOrEqual(960);
    }
  });

  test('can draw a run without any gang', () => {
    expect(renderSvg(timelineOf({ gangs: [], setting: '' }))).toContain('</svg>');
  });
});
