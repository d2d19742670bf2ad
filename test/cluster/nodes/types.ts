import type { Network } from '../network/index.js';
import type { Spawn } from '../network/spawn.js';
import type { Snapshotter } from './snapshotter.js';

/** PEM certificate signed by the cluster's CA, and its key. */
export interface KeyPair {
  cert: string;
  key: string;
}

/** Issues a certificate of the cluster's CA for client and server use. */
export type Issue = (request: { commonName: string; organizations: string[]; addresses: string[] }) => KeyPair | Promise<KeyPair>;

export interface RealNodesOptions {
  /** At most 7 on one network. */
  count: number;
  /** Names are `<prefix>1`, ...; default `node-`. */
  prefix?: string;
  network: Network;
  spawn: Spawn;
  /** What the n-th node keeps images with; overlayfs where nothing is said. */
  snapshotters?: readonly Snapshotter[];
  /** Directory of the built tools: kubelet, containerd, containerd-shim-runc-v2, ctr, and those of the snapshotters. */
  bin: string;
  /** For configuration and, with `root: disk`, the nodes' content. */
  dir: string;
  apiServer: { url: string; ca: string };
  issue: Issue;
  /** `ip:port` of plain-HTTP registries. */
  registries: readonly string[];
  labels?: Readonly<Record<string, string>>;
  /** Where images and Pods live. Default tmpfs where memory allows: its times spread less. */
  root?: 'tmpfs' | 'disk';
  /** Further fields of each kubelet's configuration, over those of the harness. */
  kubelet?: Readonly<Record<string, unknown>>;
  /** Size of each node's tmpfs in MiB; default 4096. It is the node's disk: what is full is full. */
  tmpfsMiB?: number;
}

/** A kubelet and a containerd in a network namespace. */
export interface RealNode {
  readonly name: string;
  readonly address: string;
  /** Name of its network namespace, cgroup and folder below /run/harbinger. */
  readonly netns: string;
  /** containerd's socket, for ctr and crictl. */
  readonly socket: string;
  readonly snapshotter: Snapshotter;
  /** Paths where file systems of its lazy snapshotter are mounted: one a layer (stargz) or an image (nydus). */
  fuseMounts(): Promise<string[]>;
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
