import { execFileSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, statfsSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname } from 'node:path';
import { localAddresses } from './leases.js';
import { cargo } from './cargo.js';
import { isDebian, missingPackages } from './packages/index.js';
import { cacheRoot } from './paths.js';
import { CONTROL_PLANE_TOOLS, LAZY_NODE_TOOLS, missingTools, REAL_NODE_TOOLS } from './tools.js';

/** What was found about one need of the test ground. `fix` is there when `verdict` is not ok. */
export interface Finding {
  what: string;
  verdict: 'ok' | 'warn' | 'missing';
  found: string;
  fix?: string;
  /** Without it only the suites on real nodes are left out. */
  realNodesOnly?: boolean;
}

const GIB = 2 ** 30;

/** Looks at this machine; changes nothing. */
export function examine(): Finding[] {
  return [node(), go(), toolCache(), lazyNodes(), disk(), memory(), ...(process.platform === 'linux' ? linux() : [notLinux()])];
}

/** Whether suites on real nodes (kubelet and containerd in network namespaces) can run here, and if not, why. */
export function canRunRealNodes(): { ok: boolean; why: string } {
  const findings = process.platform === 'linux' ? linux() : [notLinux()];
  const missing = findings.filter((f) => f.verdict === 'missing');
  if (missing.length === 0) return { ok: true, why: 'root on Linux with network namespaces, overlayfs and cgroups' };
  return { ok: false, why: missing.map((f) => `${f.what}: ${f.found}${f.fix ? ` (${f.fix})` : ''}`).join('; ') };
}

/**
 * Why the suite on nodes that load images lazily cannot run here as it is, besides what real nodes need; undefined if it can. `build` is
 * for a run that may take the time to build what is missing.
 */
export function lazyNodesObstacle({ build }: { build: boolean }): string | undefined {
  if (!existsSync('/dev/fuse')) return 'no /dev/fuse: load the kernel module fuse, and let a container have the device';
  const missing = missingTools(LAZY_NODE_TOOLS);
  if (missing.length === 0) return undefined;
  if (!build) return `not built: ${missing.join(', ')}; make test-formats builds them (15 min, once)`;
  return missing.includes('nydusd') && cargo() === undefined
    ? 'no cargo, which builds Nydus: install Rust (rustup.rs)'
    : undefined;
}

/** The findings as text, worst last so that it stands next to the prompt. */
export function report(findings: readonly Finding[]): string {
  const order = { ok: 0, warn: 1, missing: 2 };
  const width = Math.max(...findings.map((f) => f.what.length));
  const lines = [...findings]
    .sort((a, b) => order[a.verdict] - order[b.verdict])
    .map((f) => {
      const line = `${f.verdict.padEnd(7)}  ${f.what.padEnd(width)}  ${f.found}`;
      return f.fix ? `${line}\n${' '.repeat(11 + width)}-> ${f.fix}` : line;
    });
  const real = canRunRealNodes();
  lines.push('', real.ok ? 'Real nodes: yes (make demo, make test run everything).' : `Real nodes: no. ${real.why}`);
  return lines.join('\n');
}

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return finding('Node.js', ok, process.version, 'install Node.js 20.19 or newer');
}

function go(): Finding {
  const missing = missingTools(CONTROL_PLANE_TOOLS).length > 0;
  const version = read('go', ['env', 'GOVERSION']);
  if (!version) {
    // With all tools in the cache nothing is compiled, but Kueue's manifests still come from its module.
    return {
      what: 'Go',
      verdict: 'missing',
      found: 'no `go` on PATH',
      fix: 'install Go 1.26.6 or newer (go.dev/dl); make unit and make try do without',
    };
  }
  const [, major = '0', minor = '0', patch = '0'] = /^go(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  const number = Number(major) * 1e6 + Number(minor) * 1e3 + Number(patch);
  const switches = number >= 1_021_000 && (read('go', ['env', 'GOTOOLCHAIN']) ?? '') !== 'local';
  const ok = number >= 1_026_006 || switches;
  const found = number < 1_026_006 && switches ? `${version}, fetches 1.26.6 by itself (GOTOOLCHAIN)` : version;
  return finding(
    'Go',
    ok,
    missing ? found : `${found} (all control plane tools are built)`,
    'install Go 1.26.6 or newer (go.dev/dl), or set GOTOOLCHAIN=auto',
  );
}

function toolCache(): Finding {
  const missing = missingTools(REAL_NODE_TOOLS);
  if (missing.length === 0)
    return { what: 'test tools', verdict: 'ok', found: `all ${REAL_NODE_TOOLS.length} built, in ${cacheRoot()}` };
  return {
    what: 'test tools',
    verdict: 'warn',
    found: `${missing.length} of ${REAL_NODE_TOOLS.length} not built yet: ${missing.join(', ')}`,
    fix: 'the first make demo or make test builds them: 10 to 15 minutes and 7 GB on two cores',
  };
}

function lazyNodes(): Finding {
  const why = lazyNodesObstacle({ build: false });
  if (why === undefined) return { what: 'lazy nodes', verdict: 'ok', found: '/dev/fuse, snapshotters and Nydus are there' };
  const stop = lazyNodesObstacle({ build: true });
  return {
    what: 'lazy nodes',
    verdict: 'warn',
    found: stop ?? why,
    fix: 'only make test-formats needs them; make test leaves them out',
  };
}

function disk(): Finding {
  let dir = cacheRoot();
  while (!existsSync(dir)) dir = dirname(dir);
  const stat = statfsSync(dir);
  const free = stat.bavail * stat.bsize;
  const need = missingTools(REAL_NODE_TOOLS).length > 0 ? 14 * GIB : 3 * GIB;
  return advice(
    'disk',
    free > need,
    `${gib(free)} free for ${dir}`,
    `free ${gib(need)}, or point HARBINGER_CACHE and GOCACHE elsewhere`,
  );
}

function memory(): Finding {
  const limit = readText('/sys/fs/cgroup/memory.max') ?? readText('/sys/fs/cgroup/memory/memory.limit_in_bytes');
  const bytes = Math.min(totalmem(), Number(limit) || Infinity);
  return advice(
    'memory',
    bytes > 5 * GIB,
    gib(bytes),
    'a cluster with three real nodes takes 2 GiB, with images in memory up to 6 GiB',
  );
}

const notLinux = (): Finding => ({
  what: 'operating system',
  verdict: 'missing',
  found: process.platform,
  fix: 'real nodes need Linux; everything else runs here',
  realNodesOnly: true,
});

function linux(): Finding[] {
  const root = process.getuid?.() === 0;
  const findings = [
    finding('root', root, root ? 'yes' : `uid ${process.getuid?.()}`, 'run make as root for the suites on real nodes'),
    finding('overlayfs', /\boverlay$/m.test(readText('/proc/filesystems') ?? ''), 'in /proc/filesystems', 'modprobe overlay'),
    finding(
      'network namespaces',
      existsSync('/proc/self/ns/net') && canUnshare(root),
      'ip netns',
      'the container or VM must allow CLONE_NEWNET (CAP_SYS_ADMIN)',
    ),
    cgroups(),
    forwarding(root),
    subnet(),
    packages(root),
  ];
  return findings.map((f) => ({ ...f, realNodesOnly: true }));
}

function canUnshare(root: boolean): boolean {
  if (!root) return true; // the finding about root says it already
  return read('unshare', ['--net', 'true']) !== undefined;
}

function cgroups(): Finding {
  const unified = existsSync('/sys/fs/cgroup/cgroup.controllers');
  const hybrid = existsSync('/sys/fs/cgroup/cpu') && existsSync('/sys/fs/cgroup/memory');
  const mode = unified ? 'v2' : hybrid ? 'v1 (hybrid)' : 'none';
  const writable = unified || hybrid ? isWritable('/sys/fs/cgroup') : false;
  return finding(
    'cgroups',
    writable,
    `${mode}${writable ? '' : ', not writable'}`,
    'mount cgroups read-write (privileged container, or the host)',
  );
}

// With forwarding policy "drop" (as Docker sets it) Pods of one namespace do not reach those of another.
function forwarding(root: boolean): Finding {
  const rules = root ? (read('nft', ['list', 'chains']) ?? '') + (read('iptables', ['-S', 'FORWARD']) ?? '') : '';
  const drops = /hook forward[^}]*policy drop/s.test(rules) || /-P FORWARD DROP/.test(rules);
  const on = readText('/proc/sys/net/ipv4/ip_forward')?.trim() === '1';
  const found = `ip_forward ${on ? 'on' : 'off (a run turns it on)'}, policy ${drops ? 'drop' : 'accept'}`;
  return advice(
    'forwarding',
    !drops,
    found,
    'a firewall drops forwarded packets (Docker does): iptables -P FORWARD ACCEPT while the suites run',
  );
}

function subnet(): Finding {
  const routes = read('ip', ['-4', 'route', 'show']) ?? '';
  const foreign = routes.split('\n').filter((line) => /^10\.77\./.test(line) && !/\bdev hb/.test(line));
  const all = localAddresses().filter((a) => a.startsWith('10.77.'));
  const clash = foreign.length > 0;
  const found = clash ? foreign.join('; ') : all.length > 0 ? `test clusters at ${all.join(', ')}` : '10.77.0.0/16 is free';
  return advice('subnet', !clash, found, 'the test networks use parts of 10.77.0.0/16: remove that route while the suites run');
}

function packages(root: boolean): Finding {
  const missing = missingPackages();
  const list = missing.join(' ');
  if (missing.length === 0)
    return { what: 'packages', verdict: 'ok', found: 'runc, CNI plugins, nftables, iproute2 and what else nodes need' };
  if (isDebian() && root)
    return { what: 'packages', verdict: 'warn', found: `not installed: ${list}`, fix: 'make demo and make test install them' };
  const fix = isDebian()
    ? `apt-get install --no-install-recommends ${list}`
    : "install them (Debian's names) with this system's package manager";
  return { what: 'packages', verdict: 'missing', found: `not installed: ${list}`, fix };
}

function finding(what: string, ok: boolean, found: string, fix: string): Finding {
  return ok ? { what, verdict: 'ok', found } : { what, verdict: 'missing', found, fix };
}

/** A finding that at worst slows a run down or may trouble it. */
function advice(...args: Parameters<typeof finding>): Finding {
  const found = finding(...args);
  return found.verdict === 'ok' ? found : { ...found, verdict: 'warn' };
}

function read(command: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(command, [...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const gib = (bytes: number): string => `${(bytes / GIB).toFixed(1)} GiB`;
