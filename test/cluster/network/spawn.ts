/** A process of the cluster as its supervisor runs it. */
export interface ProcessHandle {
  readonly name: string;
  readonly pid: number;
  /** Sends the signal; a process that is gone is not an error. */
  kill(signal?: NodeJS.Signals): Promise<void> | void;
  /** SIGTERM, then SIGKILL after a while; resolves when the process has gone. */
  stop(): Promise<void>;
}

export interface SpawnRequest {
  /** Unique in the cluster; names the log file. */
  name: string;
  command: string;
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
}

/** What nodes, registry and fake nodes need of the supervisor: it holds the process and ends it when its owner goes. */
export type Spawn = (request: SpawnRequest) => Promise<ProcessHandle>;
