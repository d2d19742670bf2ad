import { changesImage } from '../api/outcomes.js';
import { formatBytes } from '../api/quantity.js';
import type { Decision } from '../api/outcomes.js';
import type { Item, Summary } from './simulate.js';

/** One object, or one problem, for people; ends with a newline. */
export function renderItem(item: Item): string {
  if ('problem' in item) {
    const { file, line, message } = item.problem;
    return `${file}${line === undefined ? '' : `:${line}`}: ${message}\n`;
  }
  const { object, file, line, unseen, unsure, images } = item.pod;
  const head = `${file}:${line}: ${object}\n`;
  if (unseen !== undefined) return `${head}  not looked at: ${unseen}\n`;
  if (unsure !== undefined) return `${head}  no verdict: ${unsure}\n`;
  return head + images.map(renderImage).join('');
}

function renderImage({ container, source, outcome, image, message }: Decision): string {
  const change = changesImage(outcome) ? `\n      -> ${image}` : '';
  return `  ${container}: ${source}\n      ${outcome}${message === undefined ? '' : `: ${message}`}${change}\n`;
}

/** What it comes to; ends with a newline. */
export function renderSummary({ objects, pods, containers, byOutcome, changed, left, problems }: Summary): string {
  const rows = Object.entries(byOutcome).map(
    ([outcome, { images, bytes }]) =>
      `  ${String(images).padStart(5)}  ${outcome}${bytes === 0 ? '' : `, ${formatBytes(bytes)} compressed`}\n`,
  );
  const images = rows.length === 0 ? '' : `images by outcome\n${rows.join('')}`;
  const end = `${changed} changed, ${left} left, ${problems} problems`;
  return `${objects} objects, ${pods} Pod templates, ${containers} containers\n${images}${end}\n`;
}
