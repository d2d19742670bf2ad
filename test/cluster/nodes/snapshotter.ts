import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { notYet, until } from '../until.js';
import type { NodePaths } from './config.js';

/** What a node's containerd keeps images with: its own overlayfs, or a daemon beside it that loads files when they are read. */
export type Snapshotter = 'overlayfs' | 'stargz' | 'nydus';

/** A daemon that containerd asks for snapshots. */
interface Daemon {
  program: string;
  args: readonly string[];
  socket: string;
  /** Content by path; those that are programs are made executable. */
  files: readonly { path: string; content: string; executable?: boolean }[];
}

export interface SnapshotterOptions {
  paths: NodePaths;
  /** Directory of the built tools. */
  bin: string;
  /** `ip:port` of plain-HTTP registries. */
  registries: readonly string[];
}

const folder = ({ state }: NodePaths, kind: Snapshotter): string => join(state, kind);
const socketOf = (paths: NodePaths, kind: Snapshotter): string => join(folder(paths, kind), 'grpc.sock');

/** Lines of containerd's configuration that make a lazy snapshotter known to it; the CRI settings go with them. */
export function proxyPlugin(paths: NodePaths, kind: Snapshotter): { plugin: string; cri: string } {
  if (kind === 'overlayfs') return { plugin: '', cri: '' };
  return {
    plugin: `[proxy_plugins.${kind}]
  type = 'snapshot'
  address = '${socketOf(paths, kind)}'
`,
    // The daemon learns image and layer from annotations, which are off by default; layers it has not read are not to be discarded.
    cri: `  disable_snapshot_annotations = false
  discard_unpacked_layers = false
`,
  };
}

/**
 * Writes the daemon's configuration and gives the command line that starts it; undefined for overlayfs, which containerd has itself. The
 * daemon's files are below the node's folder, its mounts too: they end with the node.
 */
export async function prepareDaemon(
  kind: Snapshotter,
  options: SnapshotterOptions,
): Promise<{ program: string; args: readonly string[]; ready: () => Promise<void> } | undefined> {
  if (kind === 'overlayfs') return undefined;
  const daemon = kind === 'stargz' ? stargz(options) : nydus(options);
  await mkdir(folder(options.paths, kind), { recursive: true });
  for (const { path, content, executable } of daemon.files) {
    await writeFile(path, content);
    if (executable) await chmod(path, 0o755);
  }
  const { program, args, socket } = daemon;
  const ready = async (): Promise<void> => {
    await until(`${program} to listen`, () => existsSync(socket) || notYet(`no socket ${socket}; see its log`));
  };
  return { program, args, ready };
}

function stargz({ paths, registries }: SnapshotterOptions): Daemon {
  const config = join(paths.config, 'stargz.json');
  const socket = socketOf(paths, 'stargz');
  const hosts = registries.map((host) => [host, { mirrors: [{ host, insecure: true }] }]);
  // Without background fetch, the bytes on the wire are those that the container has read.
  const content = { no_background_fetch: true, no_prometheus: true, resolver: { host: Object.fromEntries(hosts) } };
  return {
    program: 'containerd-stargz-grpc',
    args: [socket, join(folder(paths, 'stargz'), 'root'), config],
    socket,
    files: [{ path: config, content: JSON.stringify(content) }],
  };
}

function nydus({ paths, bin }: SnapshotterOptions): Daemon {
  const config = join(paths.config, 'nydus.toml');
  const nydusd = join(paths.config, 'nydusd.json');
  const wrapper = join(paths.config, 'nydusd');
  const socket = socketOf(paths, 'nydus');
  return {
    program: 'containerd-nydus-grpc',
    args: ['--config', config],
    socket,
    files: [
      { path: config, content: nydusToml({ root: join(folder(paths, 'nydus'), 'r'), socket, bin, nydusd, wrapper }) },
      { path: nydusd, content: JSON.stringify(nydusdConfig) },
      // nydusd asks for a million open files and ends where it may not have them; 0 leaves the limit as it is.
      { path: wrapper, content: `#!/bin/sh\nexec '${bin}/nydusd' "$@" --rlimit-nofile 0\n`, executable: true },
    ],
  };
}

interface NydusPaths {
  root: string;
  socket: string;
  bin: string;
  nydusd: string;
  wrapper: string;
}

function nydusToml({ root, socket, bin, nydusd, wrapper }: NydusPaths): string {
  return `version = 1
root = '${root}'
address = '${socket}'
daemon_mode = 'dedicated'
[system]
enable = false
[daemon]
nydusd_config = '${nydusd}'
nydusd_path = '${wrapper}'
nydusimage_path = '${bin}/nydus-image'
fs_driver = 'fusedev'
recover_policy = 'none'
[cgroup]
enable = false
[log]
log_to_stdout = true
[metrics]
address = ''
[experimental]
enable_index_detect = true
`;
}

// A plain-HTTP registry, and no prefetch: what is on the wire was read.
const nydusdConfig = {
  device: {
    // The snapshotter itself tries plain HTTP, for the Nydus image of a merged index, only where certificates are not asked for.
    backend: {
      type: 'registry',
      config: { scheme: 'http', skip_verify: true, timeout: 5, connect_timeout: 5, retry_limit: 2 },
    },
    cache: { type: 'blobcache' },
  },
  mode: 'direct',
  digest_validate: false,
  iostats_files: false,
  enable_xattr: true,
  fs_prefetch: { enable: false },
};
