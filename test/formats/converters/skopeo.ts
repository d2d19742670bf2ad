import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../cluster/exec.js';

/**
 * Compresses the layers of an image with zstd and pushes it. By way of a layout: skopeo takes a layer that the registry has in another
 * compression for the same one, and --preserve-digests keeps it from that on the way out.
 */
export async function zstdBySkopeo(source: string, target: string): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'harbinger-skopeo-'));
  const layout = `oci:${dir}/layout:image`;
  try {
    const zstd = ['--dest-compress', '--dest-compress-format', 'zstd'];
    await run('skopeo', ['copy', '--quiet', '--src-tls-verify=false', ...zstd, `docker://${source}`, layout]);
    await run('skopeo', ['copy', '--quiet', '--dest-tls-verify=false', '--preserve-digests', layout, `docker://${target}`]);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
