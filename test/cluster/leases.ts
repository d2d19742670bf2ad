import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { withFileLock } from './lock.js';
import { isAlive, type ProcessIdentity } from './process-identity.js';

/**
 * Loopback ports and test subnets, leased machine-wide so that parallel clusters (also of other clones) never clash.
 * A lease lasts as long as its holder, the cluster's supervisor: nothing has to be given back, also after kill -9.
 */
interface Leases {
  ports: Record<string, ProcessIdentity>;
  subnets: Record<string, ProcessIdentity>;
}

export interface Subnet {
  /** N of 10.77.N.0/24. */
  index: number;
  cidr: string;
  gateway: string;
}

// Below the kernel's ephemeral range (32768 and up), so that an outgoing connection never sits on a leased port.
const FIRST_PORT = 20_100;
const LAST_PORT = 31_900;

const leaseDir = (): string => join(tmpdir(), `harbinger-leases-${process.getuid?.() ?? 0}`);

/** Leases `count` free loopback ports for as long as `holder` lives. */
export async function leasePorts(count: number, holder: ProcessIdentity, dir = leaseDir()): Promise<number[]> {
  return change(dir, async (leases) => {
    const got: number[] = [];
    // Start at a place that differs from run to run: a port just released may linger in TIME_WAIT on some client.
    const span = LAST_PORT - FIRST_PORT;
    const offset = (holder.pid * 17) % span;
    for (let i = 0; i < span && got.length < count; i++) {
      const port = FIRST_PORT + ((offset + i) % span);
      if (leases.ports[port] || !(await isFree(port))) continue;
      leases.ports[port] = holder;
      got.push(port);
    }
    if (got.length < count)
      throw new Error(`no ${count} free ports between ${FIRST_PORT} and ${LAST_PORT}: stop other test clusters`);
    return got;
  });
}

/** Leases one 10.77.N.0/24, N in 1..250, that no interface of this machine overlaps. */
export async function leaseSubnet(holder: ProcessIdentity, dir = leaseDir()): Promise<Subnet> {
  return change(dir, (leases) => {
    const taken = new Set(localAddresses().map((a) => a.split('.').slice(0, 3).join('.')));
    for (let index = 1; index <= 250; index++) {
      const prefix = `10.77.${index}`;
      if (leases.subnets[prefix] || taken.has(prefix)) continue;
      leases.subnets[prefix] = holder;
      return { index, cidr: `${prefix}.0/24`, gateway: `${prefix}.1` };
    }
    throw new Error('all of 10.77.1-250.0/24 are leased or in use: stop other test clusters (make cluster-down)');
  });
}

/** IPv4 addresses of this machine's interfaces. */
export const localAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((list) => (list ?? []).filter((a) => a.family === 'IPv4').map((a) => a.address));

async function change<T>(dir: string, edit: (leases: Leases) => T | Promise<T>): Promise<T> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, 'leases.json');
  return withFileLock(join(dir, 'lock'), async () => {
    const leases = prune(read(file));
    const result = await edit(leases);
    writeFileSync(file, JSON.stringify(leases));
    return result;
  });
}

function read(file: string): Leases {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Leases;
  } catch {
    return { ports: {}, subnets: {} };
  }
}

const prune = (leases: Leases): Leases => ({
  ports: Object.fromEntries(Object.entries(leases.ports).filter(([, holder]) => isAlive(holder))),
  subnets: Object.fromEntries(Object.entries(leases.subnets).filter(([, holder]) => isAlive(holder))),
});

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
