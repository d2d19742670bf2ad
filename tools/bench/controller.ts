import type { Measurement } from './results.js';
import { measurement } from './results.js';
import { fakeNodes } from './controller/fake-nodes.js';
import { realNodes } from './controller/real-nodes.js';

/** Named samples of all repeats; each name becomes a line of the result. */
export class Samples {
  readonly #all = new Map<string, { unit: string; values: number[] }>();
  readonly #say: (line: string) => void;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  note(name: string, unit: string, value: number): void {
    const { values } = this.#all.get(name) ?? { values: [] };
    this.#all.set(name, { unit, values: [...values, value] });
    this.#say(`  ${name} ${value.toFixed(3)} ${unit}`);
  }

  measurements(): Measurement[] {
    return [...this.#all].map(([name, { unit, values }]) => measurement(name, unit, values));
  }
}

/** The controller with many gangs on fake nodes, and what real nodes fetch for it over a slow link (root only). */
export async function controller(say: (line: string) => void): Promise<Measurement[]> {
  const samples = new Samples(say);
  await fakeNodes(samples, say);
  if (process.getuid?.() === 0) await realNodes(samples, say);
  else say('real nodes need root: double_pulls and wire_bytes_vs_need are left out');
  return samples.measurements();
}
