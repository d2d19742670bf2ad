import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../exec.js';
import { makeCgroup } from '../network/cgroups.js';
import type { Member } from '../network/index.js';
import { RUN_ROOT } from '../network/names.js';
import type { ProcessHandle } from '../network/spawn.js';
import { until } from '../until.js';
import { cniConfig, containerdConfig, hostsToml, kubeconfig, kubeletConfig, type NodePaths } from './config.js';
import { prepareDaemon, type Snapshotter } from './snapshotter.js';
import type { RealNode, RealNodesOptions } from './types.js';

const PROGRAM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface NodeOptions extends RealNodesOptions {
  root: 'tmpfs' | 'disk';
  tmpfsMiB: number;
  cniBin: string;
  sandbox: { name: string; archive: string };
}

/** Where one node stands in its network. */
export interface NodePlace {
  name: string;
  slot: number;
  podBlock: number;
  snapshotter: Snapshotter;
}

/** Starts one node: namespace, cgroup and root first, then containerd with the sandbox image, then the kubelet. */
export async function startNode(options: NodeOptions, place: NodePlace): Promise<RealNode> {
  const member = await options.network.join(place.name, place.slot);
  const block = await options.network.routePods(member, place.podBlock);
  makeCgroup(member.netns);
  const state = join(RUN_ROOT, member.netns);
  const paths: NodePaths = { state, config: join(options.dir, place.name), socket: join(state, 'containerd.sock') };
  await mountRoot(options, paths);
  await writeConfig(options, { ...place, member, paths, block });
  const node = new Node(options, place, member, paths);
  await node.startSnapshotter();
  await node.startContainerd();
  await node.ctr('images', 'import', options.sandbox.archive);
  await node.startKubelet();
  return node;
}

// The root is a mount point in both cases, so that the run folder is cleaned up alike.
async function mountRoot({ root, tmpfsMiB }: NodeOptions, { state, config }: NodePaths): Promise<void> {
  await mkdir(state, { recursive: true });
  if (root === 'tmpfs') return void (await run('mount', ['-t', 'tmpfs', '-o', `size=${tmpfsMiB}m`, 'harbinger', state]));
  const disk = join(config, 'root');
  await mkdir(disk, { recursive: true });
  await run('mount', ['--bind', disk, state]);
}

async function writeConfig(
  options: NodeOptions,
  node: NodePlace & { member: Member; paths: NodePaths; block: string },
): Promise<void> {
  const { name, member, paths, block, snapshotter } = node;
  const keys = await options.issue({
    commonName: `system:node:${name}`,
    organizations: ['system:nodes'],
    addresses: [member.address],
  });
  const files: Record<string, string> = {
    'ca.crt': options.apiServer.ca,
    'kubelet.crt': keys.cert,
    'kubelet.key': keys.key,
    'kubeconfig.json': kubeconfig(paths, options.apiServer.url),
    'kubelet.json': kubeletConfig(paths, { address: member.address, cgroup: member.netns, more: options.kubelet }),
    'containerd.toml': containerdConfig(paths, {
      sandboxImage: options.sandbox.name,
      cniBin: options.cniBin,
      snapshotter,
    }),
    'cni/10-harbinger.conflist': cniConfig(paths, block),
  };
  for (const registry of options.registries) files[`registries/${registry}/hosts.toml`] = hostsToml(registry);
  for (const [file, content] of Object.entries(files)) {
    const path = join(paths.config, file);
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, content, { mode: file.endsWith('.key') ? 0o600 : 0o644 });
  }
}

class Node implements RealNode {
  readonly name: string;
  readonly address: string;
  readonly netns: string;
  readonly socket: string;
  readonly snapshotter: Snapshotter;
  readonly #options: NodeOptions;
  readonly #member: Member;
  readonly #paths: NodePaths;
  #kubelet: ProcessHandle | undefined;
  #containerd: ProcessHandle | undefined;

  constructor(options: NodeOptions, place: NodePlace, member: Member, paths: NodePaths) {
    this.#options = options;
    this.name = place.name;
    this.snapshotter = place.snapshotter;
    this.address = member.address;
    this.netns = member.netns;
    this.socket = paths.socket;
    this.#member = member;
    this.#paths = paths;
  }

  /** Runs ctr in the namespace that the kubelet uses. */
  ctr(...args: string[]): Promise<string> {
    return run(join(this.#options.bin, 'ctr'), ['--address', this.socket, '--namespace', 'k8s.io', ...args]);
  }

  async images(): Promise<string[]> {
    return (await this.ctr('images', 'list', '--quiet')).split('\n').filter(Boolean);
  }

  async wipe(...images: string[]): Promise<void> {
    const sandbox = (name: string): boolean => name.startsWith(this.#options.sandbox.name.split(':')[0] ?? '');
    const all = images.length > 0 ? images : (await this.images()).filter((name) => !sandbox(name));
    // The sandbox goes also by its config digest, under which nothing tells it from others: it is imported again.
    if (all.length > 0) await this.ctr('images', 'remove', '--sync', ...all);
    if (images.length === 0) await this.ctr('images', 'import', this.#options.sandbox.archive);
  }

  bytesReceived(): Promise<number> {
    return this.#member.bytesReceived();
  }

  async pauseKubelet(): Promise<void> {
    await this.#kubelet?.kill('SIGSTOP');
  }

  async resumeKubelet(): Promise<void> {
    await this.#kubelet?.kill('SIGCONT');
  }

  async stopKubelet(): Promise<void> {
    await this.#kubelet?.stop();
    this.#kubelet = undefined;
  }

  async startKubelet(): Promise<void> {
    const { config, state } = this.#paths;
    const labels = Object.entries({ ...this.#options.labels }).map(([key, value]) => `${key}=${value}`);
    this.#kubelet ??= await this.#spawn('kubelet', [
      `--config=${config}/kubelet.json`,
      `--kubeconfig=${config}/kubeconfig.json`,
      `--hostname-override=${this.name}`,
      `--node-ip=${this.address}`,
      `--root-dir=${state}/kubelet`,
      `--cert-dir=${state}/pki`,
      ...(labels.length > 0 ? [`--node-labels=${labels.join(',')}`] : []),
      '--v=2',
    ]);
  }

  /** Starts the daemon of a lazy snapshotter, which has to be there before containerd asks for it. */
  async startSnapshotter(): Promise<void> {
    const { bin, registries } = this.#options;
    const daemon = await prepareDaemon(this.snapshotter, { paths: this.#paths, bin, registries });
    if (!daemon) return;
    await this.#spawn(daemon.program, daemon.args, { PATH: PROGRAM_PATH });
    await daemon.ready();
  }

  async fuseMounts(): Promise<string[]> {
    const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
    return mounts.flatMap(([, path = '', type = '']) =>
      type.startsWith('fuse') && path.startsWith(`${this.#paths.state}/`) ? [path] : [],
    );
  }

  async stopContainerd(): Promise<void> {
    await this.#containerd?.stop();
    this.#containerd = undefined;
  }

  async startContainerd(): Promise<void> {
    // containerd looks for its shim on PATH, and for runc too.
    const path = `${this.#options.bin}:${PROGRAM_PATH}`;
    this.#containerd ??= await this.#spawn('containerd', ['--config', `${this.#paths.config}/containerd.toml`], { PATH: path });
    await until(`containerd of ${this.name}`, async () => (await this.ctr('version')) !== '');
  }

  async stop(): Promise<void> {
    await this.stopKubelet();
    await this.stopContainerd();
    await this.#member.remove();
  }

  #spawn(program: string, args: readonly string[], env: Record<string, string> = {}): Promise<ProcessHandle> {
    return this.#options.spawn({
      name: `${program}-${this.name}`,
      ...this.#member.enter(join(this.#options.bin, program), args),
      env,
    });
  }
}
