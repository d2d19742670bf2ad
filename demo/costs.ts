import { REAL_NODE_TOOLS, CONTROL_PLANE_TOOLS, missingTools } from '../test/cluster/tools.js';
import { LEGS } from '../src/cli/timeline/model.js';
import { floorSeconds } from './settings.js';
import type { Settings } from './settings.js';

/** What a run will take, said before it begins. Measured on two busy cores; docs/quickstart.md has the same figures. */
export function costsOf(settings: Settings): string[] {
  const { nodes, imageBytes, nodeCount, linkMbit } = settings;
  const real = nodes === 'real';
  const pulls = Math.round(LEGS.length * floorSeconds(imageBytes * nodeCount, linkMbit));
  // Each node keeps an image compressed and unpacked; the registry keeps it once.
  const images = ((imageBytes * LEGS.length * (2 * nodeCount + 1)) / 1e9).toFixed(1);
  const lines = [
    `This takes about ${real ? '4 minutes' : '90 seconds'}, ${pulls} s of them for pulls through a ${linkMbit} Mbit/s link, and 2 GB of memory.`,
    ...(real ? [`Images take ${images} GB while it runs: in memory where 12 GB are free, else on disk.`] : []),
  ];
  if (missingTools(real ? REAL_NODE_TOOLS : CONTROL_PLANE_TOOLS).length > 0) {
    lines.push(
      'Before that, once on this machine, the test tools are built from source: 10 to 15 minutes on two cores and 7 GB of disk.',
    );
  }
  return lines;
}
