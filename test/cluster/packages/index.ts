import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

export type PackagesAnswer = { ok: true; installed: string[] } | { ok: false; missing: string[]; why: string };

/** What real nodes and their images need, by Debian package; one of the files proves that it is there. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  runc: ['/usr/sbin/runc', '/usr/bin/runc', '/usr/local/sbin/runc'],
  'containernetworking-plugins': ['/usr/lib/cni/bridge', '/opt/cni/bin/bridge'],
  nftables: ['/usr/sbin/nft'],
  iproute2: ['/usr/sbin/ip', '/usr/bin/ip', '/sbin/ip', '/bin/ip'],
  procps: ['/usr/sbin/sysctl', '/sbin/sysctl'],
  'busybox-static': ['/bin/busybox', '/usr/bin/busybox'],
  'util-linux': ['/usr/bin/nsenter', '/bin/nsenter'],
};

/** What converts images for the tests of formats. */
const CONVERTERS: Readonly<Record<string, readonly string[]>> = {
  'stargz-snapshotter': ['/usr/bin/ctr-remote', '/usr/local/bin/ctr-remote'],
  skopeo: ['/usr/bin/skopeo', '/usr/local/bin/skopeo'],
};

export interface PackageOptions {
  /** Those of the converters too. */
  converters?: boolean;
}

/** Packages whose programs are not on this machine. */
export function missingPackages(exists: (path: string) => boolean = existsSync, options: PackageOptions = {}): string[] {
  return Object.entries({ ...NEEDED, ...(options.converters ? CONVERTERS : {}) }).flatMap(([name, files]) =>
    files.some(exists) ? [] : [name],
  );
}

/** Directory of the CNI plugins. */
export function cniDirectory(): string | undefined {
  return ['/usr/lib/cni', '/opt/cni/bin'].find((dir) => existsSync(`${dir}/bridge`));
}

/**
 * Sees to the operating system's programs that real nodes need. As root on Debian or Ubuntu it names the missing ones through `say` and installs
 * them; elsewhere it answers what is missing and why it does nothing.
 */
export function ensurePackages(say: (line: string) => void, options: PackageOptions = {}): Promise<PackagesAnswer> {
  return Promise.resolve(install(say, options));
}

function install(say: (line: string) => void, needed: PackageOptions): PackagesAnswer {
  const missing = missingPackages(existsSync, needed);
  if (process.platform !== 'linux')
    return { ok: false, missing, why: 'real nodes are Linux network namespaces, and this is not Linux' };
  if (missing.length === 0) return { ok: true, installed: [] };
  const list = missing.join(' ');
  if (!isDebian())
    return { ok: false, missing, why: `install ${list} (these are Debian's names) with this system's package manager` };
  if (process.getuid?.() !== 0)
    return { ok: false, missing, why: `installing needs root: sudo apt-get install --no-install-recommends ${list}` };
  say(`installing from this system's packages: ${list}`);
  const options = {
    stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  };
  const command = ['install', '-y', '--no-install-recommends', ...missing];
  // The package lists of a fresh machine are often absent or old; they are fetched only when it turns out so.
  if (spawnSync('apt-get', command, options).status !== 0) {
    spawnSync('apt-get', ['update'], options);
    try {
      execFileSync('apt-get', command, options);
    } catch (error) {
      return { ok: false, missing, why: `apt-get install ${list} failed: ${(error as Error).message.trim().slice(-400)}` };
    }
  }
  const still = missingPackages(existsSync, needed);
  if (still.length > 0)
    return { ok: false, missing: still, why: `apt-get installed ${list}, but the programs are not where they are expected` };
  return { ok: true, installed: missing };
}

/** Whether this system has Debian's package manager and package names. */
export function isDebian(): boolean {
  if (!existsSync('/etc/os-release')) return false;
  return /^ID(_LIKE)?=.*\b(debian|ubuntu)\b/m.test(readFileSync('/etc/os-release', 'utf8'));
}
