import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { secondsText, timelineOf } from '../src/cli/timeline/model.js';
import { renderSvg } from '../src/cli/timeline/svg.js';
import { paint, renderText, table } from '../src/cli/timeline/text.js';
import type { Style } from '../src/cli/timeline/text.js';
import type { Run } from './play.js';
import { reportOf, targetsOf, waitSeconds } from './report.js';
import type { Report } from './report.js';
import { megabytes } from './settings.js';

/**
 * Writes report.json, gangs.json (the times that the picture is drawn from) and timeline.svg, and prints the same in short. True if every step
 * was observed.
 */
export function writeResults(run: Run, style: Style, say: (line: string) => void): boolean {
  const { settings, narrator, legs, prewarm } = run;
  const report = reportOf({ nodes: settings.nodes, linkMbit: settings.linkMbit, seen: narrator.seen, legs, prewarm });
  const gangs = legs.map((l) => l.times);
  const timeline = timelineOf({
    gangs,
    setting: settingOf(run),
    ...(report.floorSeconds === null ? {} : { floorSeconds: report.floorSeconds }),
  });
  const file = (name: string): string => join(settings.out, name);
  writeFileSync(file('report.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(
    file('gangs.json'),
    `${JSON.stringify({ setting: timeline.setting, floorSeconds: report.floorSeconds, gangs }, null, 2)}\n`,
  );
  if (gangs.length > 0) {
    writeFileSync(file('timeline.svg'), renderSvg(timeline));
    writeFileSync(file('outputs/make-demo.txt'), `$ make demo\n${table(rowsOf(report))}\n`);
    say(`\n${renderText(timeline, style)}\n`);
    say(table(rowsOf(report)));
  }
  for (const t of targetsOf(report))
    say(`${paint(style, t.met ? 'green' : 'red', t.met ? 'met   ' : 'missed')} ${t.what}: ${t.value} (${t.limit})`);
  if (report.nodes === 'fake')
    say('The nodes were fake: their pulls follow a model, so no speedup is claimed. NODES=real measures.');
  const missing = report.steps.filter((s) => !s.observed).map((s) => s.name);
  say(
    missing.length === 0
      ? `All ${report.steps.length} steps were observed through the API.`
      : paint(style, 'red', `Not observed: ${missing.join(', ')}`),
  );
  say(['report.json', ...(gangs.length > 0 ? ['timeline.svg'] : [])].map((name) => relative('.', file(name))).join('  '));
  return missing.length === 0;
}

function settingOf({ settings }: Run): string {
  const { nodes, nodeCount, imageBytes, linkMbit } = settings;
  return `${nodeCount} ${nodes} nodes, ${megabytes(imageBytes)} image, ${linkMbit} Mbit/s registry link, Kueue`;
}

function rowsOf(report: Report): string[][] {
  const rows = [['LEG', 'QUOTA FREE TO ALL RUNNING', 'IMAGES REWRITTEN', 'BYTES ON THE LINK']];
  for (const [name, leg] of Object.entries(report.legs)) {
    rows.push([name, secondsText(waitSeconds(leg) ?? 0), `${leg.rewritten}/${leg.pods}`, megabytes(leg.bytes)]);
  }
  if (report.floorSeconds !== null) rows.push(['floor', secondsText(report.floorSeconds), '', 'of the cold leg']);
  return rows;
}
