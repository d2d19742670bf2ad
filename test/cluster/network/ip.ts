import { run } from '../exec.js';

/** Gives several `ip` command lines to one process, in a namespace when one is named. */
export async function ip(lines: readonly string[], netns?: string): Promise<void> {
  await run('ip', [...(netns ? ['-n', netns] : []), '-batch', '-'], { input: `${lines.join('\n')}\n` });
}
