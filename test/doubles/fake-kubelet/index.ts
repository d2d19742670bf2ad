import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from 'undici';
import type { ProcessHandle, Spawn } from '../../cluster/network/spawn.js';
import { bundleProgram } from '../../cluster/program.js';
import { until } from '../../cluster/until.js';
import type { Timing } from './pod.js';
import type { Settings } from './settings.js';

export { EXIT_CODE, knobNames, RUN_SECONDS } from './knobs.js';

export interface FakeNodesOptions {
  count: number;
  /** Names are `<prefix>1`, ...; default `fake-`. */
  prefix?: string;
  /** Path of a kubeconfig with cluster-admin rights. */
  kubeconfig: string;
  spawn: Spawn;
  /** Rate of the one link from the registries that all fake nodes share, in Mbit/s. */
  linkMbit: number;
  /** `ip:port` of registries spoken to over plain HTTP. Loopback always is. */
  registries?: readonly string[];
  labels?: Readonly<Record<string, string>>;
  /** Merged over cpu 8, memory 32Gi, pods 110, ephemeral-storage 100Gi. */
  allocatable?: Readonly<Record<string, string>>;
  /** Room for images on each node; default 100 GB. */
  diskBytes?: number;
  /** Merged over what real nodes showed. */
  timing?: Partial<Timing>;
  /** Between a pull and its showing up in Node.status.images; default 5000 (real nodes: 5 to 40 s). */
  imageReportMs?: number;
  /** Between two renewals of a node's Lease; default 10 s. A thousand nodes at that pace keep an API server busy for a third of a core. */
  heartbeatMs?: number;
}

export interface FakeNodes {
  readonly names: string[];
  readonly process: ProcessHandle;
  /** What the simulated registry link has carried, by node and by image as it is named on the node (`repo@digest` or `repo:tag`). */
  bytes(): Promise<{ total: number; byNode: Record<string, number>; byImage: Record<string, number> }>;
  /** Names of the images on a node. */
  images(node: string): Promise<string[]>;
  /** The same for all nodes at once. */
  allImages(): Promise<Record<string, string[]>>;
  /** References that each node pulls now. */
  pulls(): Promise<Record<string, string[]>>;
  /** Removes images from a node, all when none is named. */
  wipe(node: string, ...images: string[]): Promise<void>;
}

const ALLOCATABLE = { cpu: '8', memory: '32Gi', pods: '110', 'ephemeral-storage': '100Gi' };
const TIMING: Timing = { sandbox: 250, start: 150, sync: 12_000, backOff: 10_000 };

/** Starts one process that plays `count` kubelets; resolves when all Nodes are registered. What it does and does not do stands in main.ts. */
export async function startFakeNodes(options: FakeNodesOptions): Promise<FakeNodes> {
  const { count, prefix = 'fake-', kubeconfig, linkMbit, registries = [], labels = {} } = options;
  const names = Array.from({ length: count }, (_, i) => `${prefix}${i + 1}`);
  const dir = mkdtempSync(join(tmpdir(), 'harbinger-fake-'));
  const readyFile = join(dir, 'ready');
  const settings: Settings = {
    names,
    kubeconfig,
    linkMbit,
    registries: [...registries],
    labels,
    allocatable: { ...ALLOCATABLE, ...options.allocatable },
    diskBytes: options.diskBytes ?? 100e9,
    timing: { ...TIMING, ...options.timing },
    imageReportMs: options.imageReportMs ?? 5_000,
    ...(options.heartbeatMs === undefined ? {} : { heartbeatMs: options.heartbeatMs }),
    readyFile,
  };
  try {
    const file = join(dir, 'settings.json');
    writeFileSync(file, JSON.stringify(settings));
    const program = await bundleProgram('test/doubles/fake-kubelet/main.ts');
    const process_ = await options.spawn({ name: `${prefix}kubelet`, command: process.execPath, args: [program, file] });
    const port = await until(`${count} fake nodes to register`, () => read(readyFile), { timeoutMs: 60_000 + 100 * count });
    return handle(names, process_, Number(port));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function handle(names: string[], process: ProcessHandle, port: number): FakeNodes {
  const call = async (method: 'GET' | 'DELETE', path: string): Promise<unknown> => {
    const { statusCode, body } = await request(`http://127.0.0.1:${port}${path}`, { method });
    if (statusCode !== 200) throw new Error(`fake nodes: ${method} ${path}: ${await body.text()}`);
    return body.json();
  };
  return {
    names,
    process,
    bytes: async () => (await call('GET', '/bytes')) as Awaited<ReturnType<FakeNodes['bytes']>>,
    images: async (node) => (await call('GET', `/images?node=${node}`)) as string[],
    allImages: async () => (await call('GET', '/all-images')) as Record<string, string[]>,
    pulls: async () => (await call('GET', '/pulls')) as Record<string, string[]>,
    wipe: async (node, ...images) => {
      const query = new URLSearchParams({ node });
      for (const image of images) query.append('image', image);
      await call('DELETE', `/images?${query.toString()}`);
    },
  };
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
