import { freemem } from 'node:os';
import { join } from 'node:path';
import { mkdir } from 'node:fs/promises';
import { pauseImage, writeArchive } from '../../../tools/oci-image/index.js';
import { rememberSysctls } from '../network/sysctls.js';
import { cniDirectory } from '../packages/index.js';
import { startNode } from './node.js';
import type { RealNode, RealNodesOptions } from './types.js';

export type { Snapshotter } from './snapshotter.js';
export type { Issue, KeyPair, RealNode, RealNodesOptions } from './types.js';

/** First octet of nodes on the network; those below are for registries. */
const FIRST_SLOT = 10;

/**
 * Starts `count` real nodes; resolves when containerd answers and the kubelets run. Node objects become Ready some seconds later: wait for
 * that through the API. Needs root on Linux and the programs that `ensurePackages` sees to.
 */
export async function startRealNodes(options: RealNodesOptions): Promise<RealNode[]> {
  const { count, prefix = 'node-', dir } = options;
  if (count > 7) throw new Error(`${count} real nodes: a network has Pod addresses for 7`);
  const cniBin = cniDirectory();
  if (!cniBin) throw new Error('no CNI plugins in /usr/lib/cni or /opt/cni/bin: install the package containernetworking-plugins');
  await mkdir(dir, { recursive: true });
  // A lazy snapshotter asks each image's registry for its layers first: 30 s when there is none of that name, no time for a "not found".
  const lazy = options.snapshotters?.some((kind) => kind !== 'overlayfs') ?? false;
  const sandbox = { name: `${(lazy && options.registries[0]) || 'harbinger.test'}/pause:1`, archive: join(dir, 'pause.tar') };
  await writeArchive(await pauseImage(), sandbox.name, sandbox.archive);
  const tmpfsMiB = options.tmpfsMiB ?? 4096;
  const root = options.root ?? (freemem() > count * tmpfsMiB * (1 << 20) ? 'tmpfs' : 'disk');
  rememberSysctls();
  const numbers = Array.from({ length: count }, (_, i) => i + 1);
  return Promise.all(
    numbers.map((n) =>
      startNode(
        { ...options, root, tmpfsMiB, cniBin, sandbox },
        {
          name: `${prefix}${n}`,
          slot: FIRST_SLOT + n,
          podBlock: n,
          snapshotter: options.snapshotters?.[n - 1] ?? 'overlayfs',
        },
      ),
    ),
  );
}
