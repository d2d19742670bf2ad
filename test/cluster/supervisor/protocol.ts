import type { ProcessIdentity } from '../process-identity.js';

/** A process as the supervisor runs it; kept so that it can be started again under the same name. */
export interface ChildSpec {
  name: string;
  command: string;
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
  cwd?: string;
}

/** One line of the socket from client to supervisor; `id` pairs it with its answer. */
export type Request = { id: number } & (
  | { op: 'spawn'; spec: ChildSpec }
  | { op: 'start'; name: string }
  | { op: 'signal'; name: string; signal: NodeJS.Signals }
  | { op: 'wait'; name: string }
  | { op: 'list' }
  | { op: 'describe'; info: Record<string, unknown> }
  | { op: 'disown' }
  | { op: 'shutdown' }
);

export type Answer = { id: number } & ({ ok: true; value: unknown } | { ok: false; error: string });

export interface ChildStatus {
  name: string;
  pid: number;
  running: boolean;
  /** Exit code or signal name, once it has exited. */
  exit?: number | string;
  log: string;
}

/** The state file: all that another process, or the next run after a crash, needs to know of a cluster. */
export interface ClusterState {
  name: string;
  supervisor: ProcessIdentity;
  socket: string;
  /** Files of this run; removed at teardown. */
  runDir: string;
  logDir: string;
  children: (ProcessIdentity & { name: string })[];
  /** What `describe` has put here: kubeconfig, addresses, `network` (name for cleaning up namespaces), `memoryDir`. */
  info: Record<string, unknown>;
}

/** Folders in memory that teardown may remove begin so; anything else in a state file is not ours. */
export const MEMORY_DIR_PREFIX = '/dev/shm/harbinger-etcd-';
