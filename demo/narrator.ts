import { paint, progressBar } from '../src/cli/timeline/text.js';
import type { Style } from '../src/cli/timeline/text.js';
import { formatDuration } from '../src/api/duration.js';
import type { StepName } from './report.js';

/** Where the text goes; process.stdout in the demo. */
export interface Sink {
  write(text: string): unknown;
}

/** Tells the story and keeps the book of which step was seen when. */
export class Narrator {
  readonly seen = new Map<StepName, number>();
  readonly #style: Style;
  readonly #sink: Sink;
  readonly #startedAt = Date.now();
  #bar = false;
  #lastLine = '';

  constructor(style: Style, sink: Sink) {
    this.#style = style;
    this.#sink = sink;
  }

  /** A chapter. */
  heading(title: string): void {
    this.say(`\n${paint(this.#style, 'bold', title)}`);
  }

  say(line: string): void {
    this.#endBar();
    this.#sink.write(`${line}\n`);
  }

  /** What is being waited for; replaced by what comes. */
  doing(line: string): void {
    this.say(`${this.#clock()}   ${paint(this.#style, 'grey', `${line} ...`)}`);
  }

  /** A step was observed: `evidence` says what the API showed. */
  step(name: StepName, evidence: string, at = Date.now()): void {
    this.seen.set(name, at);
    this.say(`${this.#clock()} ${paint(this.#style, 'green', '✓')} ${evidence}`);
  }

  note(line: string): void {
    this.say(`${this.#clock()}   ${line}`);
  }

  /** A bar that is drawn over itself on a terminal; elsewhere a line at each tenth. */
  progress(share: number, label: string): void {
    if (this.#style.colour) {
      this.#sink.write(`\r\u001b[K${this.#clock()}   ${progressBar(this.#style, share, label)}`);
      this.#bar = true;
      return;
    }
    const line = progressBar(this.#style, Math.floor(share * 10) / 10, '');
    if (line === this.#lastLine) return;
    this.#lastLine = line;
    this.note(`${line}${label}`);
  }

  /** Output of a command, as a person sees it. */
  output(command: string, text: string): void {
    this.say(`${paint(this.#style, 'blue', `          $ ${command}`)}\n${text.trimEnd().replaceAll(/^/gm, '          ')}`);
  }

  problem(text: string): void {
    this.say(`${this.#clock()} ${paint(this.#style, 'red', '✗')} ${text}`);
  }

  #endBar(): void {
    if (this.#bar) this.#sink.write('\n');
    this.#bar = false;
  }

  #clock(): string {
    return paint(this.#style, 'grey', formatDuration(Date.now() - this.#startedAt).padStart(7));
  }
}
