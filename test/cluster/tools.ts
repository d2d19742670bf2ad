import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { cargoInstall } from './cargo.js';
import { run } from './exec.js';
import { withFileLock } from './lock.js';
import { cacheRoot, repoRoot } from './paths.js';

/** A program built from a pinned Go module or crate. */
interface Tool {
  name: string;
  /** Go package; of a crate, its programs have no other name. */
  package: string;
  /** Seconds to build from an empty Go cache on two busy cores, measured; for the estimate only. */
  weight: number;
}

interface GoGroup {
  kind: 'go';
  /** Folder below test/cluster/go that holds go.mod and go.sum. */
  module: string;
  ldflags: string;
  tools: Tool[];
}

interface CrateGroup {
  kind: 'crate';
  crate: string;
  version: string;
  /** All of them come out of one build. */
  tools: Tool[];
}

type Group = GoGroup | CrateGroup;

const KUBERNETES = 'v1.36.3';
const stamp = (pkg: string, values: Record<string, string>): string =>
  Object.entries(values)
    .map(([key, value]) => `-X ${pkg}.${key}=${value}`)
    .join(' ');

// Without the stamp clients see v0.0.0, and version-gated behaviour goes wrong.
const GROUPS: Group[] = [
  {
    kind: 'go',
    module: 'kube',
    ldflags: `-s -w ${stamp('k8s.io/component-base/version', { gitVersion: KUBERNETES, gitMajor: '1', gitMinor: '36' })}`,
    tools: [
      { name: 'etcd', package: 'go.etcd.io/etcd/server/v3', weight: 30 },
      { name: 'kube-apiserver', package: 'k8s.io/kubernetes/cmd/kube-apiserver', weight: 220 },
      { name: 'kube-controller-manager', package: 'k8s.io/kubernetes/cmd/kube-controller-manager', weight: 50 },
      { name: 'kube-scheduler', package: 'k8s.io/kubernetes/cmd/kube-scheduler', weight: 15 },
      { name: 'kubectl', package: 'k8s.io/kubernetes/cmd/kubectl', weight: 30 },
      { name: 'kueue', package: 'sigs.k8s.io/kueue/cmd/kueue', weight: 80 },
      { name: 'crane', package: 'github.com/google/go-containerregistry/cmd/crane', weight: 5 },
      { name: 'kubelet', package: 'k8s.io/kubernetes/cmd/kubelet', weight: 50 },
    ],
  },
  {
    kind: 'go',
    module: 'containerd',
    ldflags: `-s -w ${stamp('github.com/containerd/containerd/v2/version', { Version: '2.4.2' })}`,
    tools: [
      { name: 'containerd', package: 'github.com/containerd/containerd/v2/cmd/containerd', weight: 55 },
      { name: 'containerd-shim-runc-v2', package: 'github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2', weight: 10 },
      { name: 'ctr', package: 'github.com/containerd/containerd/v2/cmd/ctr', weight: 6 },
      { name: 'crictl', package: 'sigs.k8s.io/cri-tools/cmd/crictl', weight: 20 },
    ],
  },
  {
    kind: 'go',
    module: 'stargz',
    ldflags: '-s -w',
    tools: [{ name: 'containerd-stargz-grpc', package: '.', weight: 35 }],
  },
  {
    kind: 'go',
    module: 'registry',
    ldflags: '-s -w',
    tools: [{ name: 'referrers-registry', package: '.', weight: 3 }],
  },
  {
    kind: 'go',
    module: 'nydus',
    ldflags: '-s -w',
    tools: [
      {
        name: 'containerd-nydus-grpc',
        package: 'github.com/containerd/nydus-snapshotter/cmd/containerd-nydus-grpc',
        weight: 110,
      },
    ],
  },
  {
    kind: 'crate',
    crate: 'nydus-rs',
    version: '2.2.0',
    tools: [
      { name: 'nydusd', package: 'nydusd', weight: 480 },
      { name: 'nydus-image', package: 'nydus-image', weight: 0 },
    ],
  },
];

/** What a control plane with fake nodes needs. */
export const CONTROL_PLANE_TOOLS = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'kueue',
  'crane',
] as const;
const toolsOf = (module: string): string[] =>
  GROUPS.flatMap((g) => (g.kind === 'go' && g.module === module ? g.tools.map((t) => t.name) : []));

/** What a cluster with real nodes needs: control plane, kubelet and containerd. */
export const REAL_NODE_TOOLS: readonly string[] = [...toolsOf('kube'), ...toolsOf('containerd')];
/** What nodes need on top that load images lazily, by their snapshotter. */
export const SNAPSHOTTER_TOOLS = {
  overlayfs: [],
  stargz: toolsOf('stargz'),
  nydus: [...toolsOf('nydus'), 'nydusd', 'nydus-image'],
} as const satisfies Record<string, readonly string[]>;
export const LAZY_NODE_TOOLS: readonly string[] = Object.values(SNAPSHOTTER_TOOLS).flat();

interface Placed extends Tool {
  group: Group;
  path: string;
}

/** Folder of the Go module `module` with the pins of its tools. */
export const goModuleDir = (module: string): string => join(repoRoot(), 'test/cluster/go', module);

// The cache key covers all that decides the bytes of the result: pins, flags, platform.
function binDir(group: Group): string {
  const platform = `${process.platform} ${process.arch}`;
  if (group.kind === 'crate')
    return join(cacheRoot(), 'tools', `${group.crate}-${group.version}-${platform.replace(' ', '-')}`, 'bin');
  const dir = goModuleDir(group.module);
  const own = readdirSync(dir).filter((name) => name.endsWith('.go'));
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum', ...own.sort()]) hash.update(readFileSync(join(dir, file)));
  hash.update(`${group.ldflags} ${platform}`);
  return join(cacheRoot(), 'tools', `${group.module}-${hash.digest('hex').slice(0, 16)}`, 'bin');
}

const placed = (names: readonly string[]): Placed[] =>
  GROUPS.flatMap((group) => group.tools.map((t) => ({ ...t, group, path: join(binDir(group), t.name) }))).filter((t) =>
    names.includes(t.name),
  );

/** The named tools that are not in the cache yet. */
export const missingTools = (names: readonly string[] = REAL_NODE_TOOLS): string[] =>
  placed(names)
    .filter((t) => !existsSync(t.path))
    .map((t) => t.name);

/**
 * Paths of the named tools, by name. What the cache lacks is built first, tool by tool, so that an interrupted run goes
 * on where it stopped; `say` gets the cost before the start and then progress lines. Throws when Go is missing or too old.
 */
export async function ensureTools(
  names: readonly string[] = REAL_NODE_TOOLS,
  say: (line: string) => void = (l) => console.log(l),
): Promise<Record<string, string>> {
  const tools = placed(names);
  if (tools.some((t) => !existsSync(t.path))) {
    await withFileLock(
      join(cacheRoot(), 'tools', 'lock'),
      () => buildMissing(tools, say),
      (pid) => say(`tools: process ${pid} is building them right now; waiting for it`),
    );
  }
  return Object.fromEntries(tools.map((t) => [t.name, t.path]));
}

async function buildMissing(tools: readonly Placed[], say: (line: string) => void): Promise<void> {
  const todo = tools.filter((t) => !existsSync(t.path));
  if (todo.length === 0) return;
  for (const module of new Set(todo.flatMap((t) => (t.group.kind === 'go' ? [t.group.module] : [])))) await requireGo(module);
  const total = todo.reduce((sum, t) => sum + t.weight, 0);
  say(`tools: ${todo.length} to build from pinned Go modules and crates: ${todo.map((t) => t.name).join(', ')}`);
  say(
    `tools: ${minutes(total)} on two idle cores, twice that on busy ones, when Go's caches are empty; much less when they are warm. Once per machine. ` +
      `Disk: up to 7 GB (Go's build cache 4.4, its modules 1.9, programs 0.7) in ${cacheRoot()} and Go's own caches`,
  );
  const progress = new Progress(total, say);
  for (const [index, tool] of todo.entries()) {
    // Others of the same crate have come with it.
    if (existsSync(tool.path)) continue;
    await progress.during(`${tool.name} (${index + 1}/${todo.length})`, tool.weight, () => build(tool));
  }
  say(`tools: built in ${minutes(progress.elapsedSeconds)}`);
}

async function build({ path, group, package: program }: Placed): Promise<void> {
  mkdirSync(join(path, '..'), { recursive: true });
  if (group.kind === 'crate') return cargoInstall({ ...group, bin: join(path, '..'), programs: group.tools.map((t) => t.name) });
  const temp = `${path}.${process.pid}.tmp`;
  await run('go', ['build', '-trimpath', '-ldflags', group.ldflags, '-o', temp, program], {
    cwd: goModuleDir(group.module),
    env: { CGO_ENABLED: '0', GOFLAGS: '-mod=readonly -buildvcs=false' },
  });
  renameSync(temp, path);
}

/** Throws with the way out when Go is absent or older than the module wants. */
async function requireGo(module: string): Promise<void> {
  const wanted = /^go (\S+)/m.exec(readFileSync(join(goModuleDir(module), 'go.mod'), 'utf8'))?.[1] ?? '';
  try {
    await run('go', ['version'], { cwd: goModuleDir(module) });
  } catch (error) {
    const absent = (error as Error).message.includes('ENOENT');
    const found = absent ? 'Go is not installed (no `go` on PATH)' : `the Go on PATH does not do: ${(error as Error).message}`;
    throw new Error(
      `${found}. The test tools need Go ${wanted} or newer: install it from go.dev/dl, or allow GOTOOLCHAIN=auto with Go 1.21+`,
      {
        cause: error,
      },
    );
  }
}

/** Time left is the weight left times how fast this machine has been so far. */
class Progress {
  #done = 0;
  readonly #start = performance.now();
  readonly #total: number;
  readonly #say: (line: string) => void;

  constructor(total: number, say: (line: string) => void) {
    this.#total = total;
    this.#say = say;
  }

  get elapsedSeconds(): number {
    return (performance.now() - this.#start) / 1000;
  }

  async during(what: string, weight: number, work: () => Promise<void>): Promise<void> {
    const begun = performance.now();
    const line = (): void => {
      const here = Math.min((performance.now() - begun) / 1000, weight * 0.9);
      const pace = this.#done > 0 ? (this.elapsedSeconds - here) / this.#done : 1;
      const left = Math.max(this.#total - this.#done - here, 0) * pace;
      this.#say(`tools: building ${what}, ${minutes(this.elapsedSeconds)} elapsed, about ${minutes(left)} left`);
    };
    line();
    const timer = setInterval(line, 15_000);
    try {
      await work();
    } finally {
      clearInterval(timer);
    }
    this.#done += weight;
  }
}

const minutes = (seconds: number): string => (seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`);

/** Folder of a module that the tools depend on (its CRDs and manifests), e.g. sigs.k8s.io/kueue. */
export async function moduleDir(path: string, { module = 'kube' } = {}): Promise<string> {
  const text = await run('go', ['list', '-m', '-json', path], { cwd: goModuleDir(module) });
  const dir = (JSON.parse(text) as { Dir?: string }).Dir;
  if (dir) return dir;
  const download = await run('go', ['mod', 'download', '-json', path], { cwd: goModuleDir(module) });
  return (JSON.parse(download) as { Dir: string }).Dir;
}
