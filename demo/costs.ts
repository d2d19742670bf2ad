import { ALL_TOOLS, CONTROL_PLANE_TOOLS, missingTools } from '../test/cluster/tools.js';
import { LEGS } from '../src/cli/timeline/model.js';
import { floorSeconds, megabytes } from './settings.js';
import type { Settings } from './settings.js';

/** What a run will take, said before it begins. Measured on two busy cores; docs/quickstart.md has the same figures. */
export function costsOf(settings: Settings): string[] {
  const { nodes, imageBytes, nodeCount, linkMbit } = settings;
  const real = nodes === 'real';
  const pulls = Math.round(LEGS.length * floorSeconds(imageBytes * nodeCount, linkMbit));
  // Each node keeps an image compressed and unpacked; the registry keeps it once.
  const images = real ? `, ${megabytes(imageBytes * LEGS.length * (2 * nodeCount + 1))} for images while it runs` : '';
  const lines = [
    `This takes about ${real ? '5 minutes' : '2 minutes'}, ${pulls} s of them for pulls through a ${linkMbit} Mbit/s link, and ${real ? 3 : 2} GB of memory${images}.`,
  ];
  if (missingTools(real ? ALL_TOOLS : CONTROL_PLANE_TOOLS).length > 0) {
    lines.push(
      'Before that, once on this machine, the test tools are built from source: about 10 minutes on two cores and 12 GB of disk.',
    );
  }
  return lines;
}
