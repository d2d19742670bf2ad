import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { identityOf, type ProcessIdentity } from '../process-identity.js';
import type { ChildSpec, ChildStatus } from './protocol.js';

interface Entry {
  spec: ChildSpec;
  identity: ProcessIdentity;
  process: ChildProcess;
  exit?: number | string;
  exited: Promise<number | string>;
}

/** The processes of one supervisor, by name, each with a log file and a process group of its own. */
export class Children {
  readonly #entries = new Map<string, Entry>();
  readonly #logDir: string;
  readonly #onChange: () => void;

  constructor(logDir: string, onChange: () => void) {
    this.#logDir = logDir;
    this.#onChange = onChange;
  }

  /** Starts a process; resolves with its pid once the kernel has it. A name can be used again when its process has exited. */
  async spawn(spec: ChildSpec): Promise<number> {
    const before = this.#entries.get(spec.name);
    if (before && before.exit === undefined) throw new Error(`${spec.name} is running already (pid ${before.identity.pid})`);
    const log = openSync(this.#logPath(spec.name), 'a');
    try {
      const child = spawn(spec.command, [...spec.args], {
        // A group of its own: a signal to the group also reaches what the child has started.
        detached: true,
        stdio: ['ignore', log, log],
        env: { ...process.env, ...spec.env },
        ...(spec.cwd ? { cwd: spec.cwd } : {}),
      });
      await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject));
      this.#remember(spec, child);
      return child.pid ?? 0;
    } catch (error) {
      throw new Error(`cannot start ${spec.name} (${spec.command}): ${(error as Error).message}`, { cause: error });
    } finally {
      closeSync(log);
    }
  }

  #remember(spec: ChildSpec, child: ChildProcess): void {
    const exited = new Promise<number | string>((resolve) => {
      child.once('exit', (code, signal) => {
        entry.exit = signal ?? code ?? 0;
        this.#onChange();
        resolve(entry.exit);
      });
    });
    // A program that exits at once may be gone from /proc by now: its exit event follows.
    const identity = safely(() => identityOf(child.pid ?? 0)) ?? { pid: child.pid ?? 0, startTime: 'gone' };
    const entry: Entry = { spec, identity, process: child, exited };
    this.#entries.set(spec.name, entry);
    this.#onChange();
  }

  /** Starts a process again as it was started first. */
  start(name: string): Promise<number> {
    return this.spawn(this.#entry(name).spec);
  }

  /** Sends a signal; nothing happens when the process has exited. */
  signal(name: string, signal: NodeJS.Signals): void {
    const entry = this.#entry(name);
    if (entry.exit === undefined) entry.process.kill(signal);
  }

  /** Resolves with exit code or signal name. */
  exited(name: string): Promise<number | string> {
    return this.#entry(name).exited;
  }

  list(): ChildStatus[] {
    return [...this.#entries.values()].map(({ spec, identity, exit }) => ({
      name: spec.name,
      pid: identity.pid,
      running: exit === undefined,
      log: this.#logPath(spec.name),
      ...(exit === undefined ? {} : { exit }),
    }));
  }

  /** Living processes in the order they were started. */
  identities(): (ProcessIdentity & { name: string })[] {
    return [...this.#entries.values()].filter((e) => e.exit === undefined).map((e) => ({ name: e.spec.name, ...e.identity }));
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (!entry) throw new Error(`no process "${name}" in this cluster; there are: ${[...this.#entries.keys()].join(', ')}`);
    return entry;
  }

  #logPath(name: string): string {
    return join(this.#logDir, `${name}.log`);
  }
}

function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
