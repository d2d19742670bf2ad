import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../cluster/exec.js';
import type { ProcessHandle, Spawn } from '../../cluster/network/spawn.js';
import { until } from '../../cluster/until.js';

/** ctr-remote of the stargz project, with a containerd of its own to convert in: nodes must not get to know the blobs on the way. */
export interface CtrRemote {
  /** eStargz with OCI media types; without those, its annotations would be lost and the image never be loaded lazily. */
  estargz(source: string, target: string): Promise<void>;
  zstdChunked(source: string, target: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the containerd; `bin` holds it, `dir` gets its state and has to be a short path since sockets live there. */
export async function startCtrRemote({ spawn, bin, dir }: { spawn: Spawn; bin: string; dir: string }): Promise<CtrRemote> {
  await mkdir(dir, { recursive: true });
  const socket = join(dir, 'c.sock');
  const config = join(dir, 'containerd.toml');
  await writeFile(config, containerdConfig(dir, socket));
  const containerd: ProcessHandle = await spawn({
    name: 'containerd-converter',
    command: join(bin, 'containerd'),
    args: ['--config', config],
  });
  const ctr = (...args: string[]): Promise<string> => run('ctr-remote', ['--address', socket, '--namespace', 'convert', ...args]);
  await until('containerd of the converter', async () => (await ctr('version')) !== '');
  const convert = async (source: string, target: string, ...how: string[]): Promise<void> => {
    await ctr('content', 'fetch', '--plain-http', source);
    await ctr('images', 'convert', '--oci', ...how, source, target);
    await ctr('images', 'push', '--plain-http', target);
  };
  return {
    estargz: (source, target) => convert(source, target, '--estargz'),
    zstdChunked: (source, target) => convert(source, target, '--zstdchunked'),
    stop: () => containerd.stop(),
  };
}

// Content store, images and leases are all that a conversion needs.
const containerdConfig = (dir: string, socket: string): string => `version = 4
root = '${dir}/root'
state = '${dir}/state'
imports = []
disabled_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime', 'io.containerd.nri.v1.nri',
  'io.containerd.image-verifier.v1.bindir']
[plugins.'io.containerd.server.v1.grpc']
  address = '${socket}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '${socket}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '${dir}/opt'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '${dir}/s'
`;
