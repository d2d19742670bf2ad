import type { Network } from '../network/index.js';
import type { Spawn } from '../network/spawn.js';

/** PEM certificate signed by the cluster's CA, and its key. */
export interface KeyPair {
  cert: string;
  key: string;
}

/** Issues a certificate of the cluster's CA for client and server use. */
export type Issue = (request: { commonName: string; organizations: string[]; addresses: string[] }) => KeyPair | Promise<KeyPair>;

export interface RealNodesOptions {
  count: number;
  /** Names are `<prefix>1`, ...; default `node-`. */
  prefix?: string;
  network: Network;
  spawn: Spawn;
  /** Directory of the built tools: kubelet, containerd, containerd-shim-runc-v2, ctr. */
  bin: string;
  /** For configuration and logs of the nodes. */
  dir: string;
  apiServer: { url: string; ca: string };
  issue: Issue;
  /** `ip:port` of plain-HTTP registries. */
  registries: readonly string[];
  labels?: Readonly<Record<string, string>>;
  /** Where images and Pods live. tmpfs where memory allows: its times spread less. */
  root?: 'tmpfs' | 'disk';
  /** Size of each node's tmpfs in MiB; default 4096. */
  tmpfsMiB?: number;
}

/** A kubelet and a containerd in a network namespace. */
export interface RealNode {
  readonly name: string;
  readonly address: string;
  readonly netns: string;
  /** Names of the images in containerd. */
  images(): Promise<string[]>;
  /** Removes images (all but the sandbox when none is named) and their content, as on a fresh node; running Pods keep theirs. */
  wipe(...images: string[]): Promise<void>;
  bytesReceived(): Promise<number>;
  pauseKubelet(): Promise<void>;
  resumeKubelet(): Promise<void>;
  stopKubelet(): Promise<void>;
  startKubelet(): Promise<void>;
  stopContainerd(): Promise<void>;
  startContainerd(): Promise<void>;
  /** Ends both, the Pods and everything the node has left on this machine. The Node object stays. */
  stop(): Promise<void>;
}

/** Starts `count` real nodes; resolves when both daemons run. Node objects become Ready some seconds later: wait for that through the API. */
export function startRealNodes(_options: RealNodesOptions): Promise<RealNode[]> {
  return Promise.reject(new Error('not built yet'));
}
