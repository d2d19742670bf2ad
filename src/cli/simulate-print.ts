import { renderNotes } from './explain-text.js';
import { printed } from './output.js';
import type { Item, Summary } from './simulate.js';
import { renderItem, renderSummary } from './simulate-text.js';

/** Texts of a simulation, one after the other: a large folder is never held whole. */
export interface Printer {
  item(item: Item): string;
  end(summary: Summary, notes: readonly string[]): string;
}

/** For people: notes come last, since reading goes on while printing. */
function textPrinter(): Printer {
  let first = true;
  return {
    item: (item) => {
      const gap = first ? '' : '\n';
      first = false;
      return gap + renderItem(item);
    },
    end: (summary, notes) => `${first ? '' : '\n'}${renderNotes(notes)}${renderSummary(summary)}`,
  };
}

/** `{"items": [...], "notes": [...], "summary": {...}}`; an item is a Pod or a problem, in the order of the files. */
function jsonPrinter(): Printer {
  let count = 0;
  return {
    item: (item) => `${count++ === 0 ? '{"items": [' : ','}\n${JSON.stringify(plain(item))}`,
    end: (summary, notes) => `${count === 0 ? '{"items": [' : ''}\n],\n${printed({ notes, summary }, 'json').slice(1)}`,
  };
}

function yamlPrinter(): Printer {
  let count = 0;
  return {
    item: (item) => `${count++ === 0 ? 'items:\n' : ''}${printed([plain(item)], 'yaml')}`,
    end: (summary, notes) => `${count === 0 ? 'items: []\n' : ''}${printed({ notes, summary }, 'yaml')}`,
  };
}

export const PRINTERS = { text: textPrinter, json: jsonPrinter, yaml: yamlPrinter } as const;

function plain(item: Item): object {
  return 'pod' in item ? item.pod : { problem: item.problem };
}
