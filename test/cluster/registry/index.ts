import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import type { Member, Network } from '../network/index.js';
import type { ProcessHandle, Spawn } from '../network/spawn.js';
import { notYet, until } from '../until.js';
import { readManifests, restoreManifests, type KeptManifest } from './manifests.js';

export interface RegistryOptions {
  /** Unique in the cluster, e.g. `registry`. */
  name: string;
  spawn: Spawn;
  /** Directory of the built tools (crane). */
  bin: string;
  /** Where blobs and manifests are kept. */
  dir: string;
  port: number;
  /** Absent: the registry listens on loopback. Present: in a namespace of its own on this network, at `slot` (2..9). */
  network?: { network: Network; slot: number; rateMbit?: number };
}

/** A plain-HTTP registry process. */
export interface Registry {
  /** `ip:port` as image references name it. */
  readonly host: string;
  readonly url: string;
  /** Bytes sent to its clients since it was made; 0 on loopback. */
  bytesSent(): Promise<number>;
  /** Limits its egress (namespace only). */
  shape(rateMbit: number | undefined): Promise<void>;
  stop(): Promise<void>;
  /** Starts it again on the same address with the tagged content it had. */
  start(): Promise<void>;
}

/** Starts a registry and waits until it answers. Only what it sends is shaped: images are pushed to it at full speed. */
export async function startRegistry(options: RegistryOptions): Promise<Registry> {
  const { name, port, network } = options;
  const member = network && (await network.network.join(name, network.slot));
  if (network?.rateMbit !== undefined) await member?.shapeEgress(network.rateMbit);
  await mkdir(options.dir, { recursive: true });
  const host = `${member?.address ?? '127.0.0.1'}:${port}`;
  const url = `http://${host}`;
  let running: ProcessHandle | undefined;
  let kept: KeptManifest[] = [];

  const registry: Registry = {
    host,
    url,
    bytesSent: () => member?.bytesSent() ?? Promise.resolve(0),
    shape: (rateMbit) => {
      if (!member)
        return Promise.reject(new Error(`registry ${name} listens on loopback, which has no link to shape: give it a network`));
      return member.shapeEgress(rateMbit);
    },
    stop: async () => {
      if (!running) return;
      kept = await readManifests(url);
      await running.stop();
      running = undefined;
    },
    start: async () => {
      if (running) return;
      running = await options.spawn({ name, ...commandLine(options, host, member) });
      await until(`registry ${name} at ${url}`, async () => {
        const { statusCode, body } = await request(`${url}/v2/`);
        await body.dump();
        return statusCode === 200 || notYet(`status ${statusCode}`);
      });
      await restoreManifests(url, kept);
    },
  };
  await registry.start();
  return registry;
}

function commandLine({ bin, dir }: RegistryOptions, address: string, member?: Member): { command: string; args: string[] } {
  const crane = join(bin, 'crane');
  const args = ['registry', 'serve', '--address', address, '--disk', dir];
  return member?.enter(crane, args) ?? { command: crane, args };
}
