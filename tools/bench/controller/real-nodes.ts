import type { Samples } from '../controller.js';

export async function realNodes(_samples: Samples, say: (line: string) => void): Promise<void> {
  say('real nodes: not measured');
  await Promise.resolve();
}
