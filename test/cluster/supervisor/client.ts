import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ProcessHandle, SpawnRequest } from '../network/spawn.js';
import { clusterDir, repoRoot, statePath } from '../paths.js';
import { identityOf, isAlive, type ProcessIdentity } from '../process-identity.js';
import { bundleProgram } from '../program.js';
import { GiveUp, notYet, until } from '../until.js';
import type { Answer, ChildSpec, ChildStatus, ClusterState, Request } from './protocol.js';
import { readState, staleStates, tearDown } from './teardown.js';

type Operation = Request extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never;
type Pending = { resolve: (value: unknown) => void; reject: (error: Error) => void };

/** Connection to the supervisor of a cluster. */
export class Supervisor {
  readonly state: ClusterState;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  #next = 1;

  private constructor(state: ClusterState, socket: Socket) {
    this.state = state;
    this.#socket = socket;
    createInterface({ input: socket }).on('line', (line) => this.#settle(JSON.parse(line) as Answer));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#failAll());
    socket.unref();
  }

  /**
   * Starts the supervisor of a new cluster, after clearing away what dead supervisors of this repository have left.
   * `owned`: the cluster ends when this process does; otherwise it stays until `shutdown` (make cluster-down).
   */
  static async launch(name: string, { owned }: { owned: boolean }): Promise<Supervisor> {
    for (const stale of staleStates()) {
      await tearDown(stale.state);
      rmSync(stale.path, { force: true });
    }
    const running = readState(statePath(name));
    if (running)
      throw new Error(
        `cluster "${name}" runs already (supervisor ${running.supervisor.pid}); end it first: make cluster-down NAME=${name}`,
      );
    const program = await bundleProgram('test/cluster/supervisor/main.ts');
    const dir = clusterDir(name);
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(dir, { recursive: true });
    // A unix socket's path may have 107 bytes only, so run files are not kept below the repository.
    const runDir = mkdtempSync(join(tmpdir(), `harbinger-${name.slice(0, 20)}-`));
    const log = openSync(join(dir, 'supervisor.log'), 'a');
    const child = spawn(process.execPath, [program, name, runDir, dir, owned ? 'owned' : 'free'], {
      cwd: repoRoot(),
      detached: true,
      stdio: [owned ? 'pipe' : 'ignore', log, log],
      env: environment(),
    });
    closeSync(log);
    child.unref();
    (child.stdin as Socket | null)?.unref();
    let exit: string | undefined;
    child.once('exit', (code, signal) => (exit = `${signal ?? code}`)).once('error', (e) => (exit = e.message));
    const state = await until(`supervisor of cluster ${name}`, () => {
      if (exit !== undefined) throw new GiveUp(`it ended (${exit}); see ${join(dir, 'supervisor.log')}`);
      return readState(statePath(name));
    });
    return Supervisor.attach(state);
  }

  /** Connects to a running supervisor. */
  static async attach(state: ClusterState): Promise<Supervisor> {
    const socket = connect(state.socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new Supervisor(state, socket);
  }

  get identity(): ProcessIdentity {
    return this.state.supervisor;
  }

  /** Starts a process in the cluster; it ends with it. */
  async spawn(request: SpawnRequest & { cwd?: string }): Promise<ProcessHandle> {
    const pid = (await this.#call({ op: 'spawn', spec: request satisfies ChildSpec })) as number;
    return this.#handle(request.name, identityOrGone(pid));
  }

  /** Starts a process again with its first command line. */
  async start(name: string): Promise<ProcessHandle> {
    return this.#handle(name, identityOrGone((await this.#call({ op: 'start', name })) as number));
  }

  /** Sends a signal by name; no error when the process has exited. */
  async signal(name: string, signal: NodeJS.Signals): Promise<void> {
    await this.#call({ op: 'signal', name, signal });
  }

  /** Sends a signal (default SIGKILL) and resolves when the process has exited, with exit code or signal name. */
  async kill(name: string, signal: NodeJS.Signals = 'SIGKILL'): Promise<number | string> {
    await this.signal(name, signal);
    return this.exited(name);
  }

  /** Resolves when the process has exited, with exit code or signal name. */
  async exited(name: string): Promise<number | string> {
    return (await this.#call({ op: 'wait', name })) as number | string;
  }

  async list(): Promise<ChildStatus[]> {
    return (await this.#call({ op: 'list' })) as ChildStatus[];
  }

  /** A probe for `until`: gives up with the end of the log when the process has exited. */
  async mustRun(name: string): Promise<void> {
    const child = (await this.list()).find((c) => c.name === name);
    if (!child || child.running) return;
    const end = readFileSync(child.log, 'utf8').trimEnd().split('\n').slice(-3);
    throw new GiveUp(
      `${name} has exited (${child.exit}); see ${child.log}, which ends with\n${end.map((l) => l.slice(0, 600)).join('\n')}`,
    );
  }

  /** Adds facts to the state file. */
  async describe(info: Record<string, unknown>): Promise<void> {
    Object.assign(this.state.info, info);
    await this.#call({ op: 'describe', info });
  }

  /** The cluster stays when this process ends, until somebody shuts it down. */
  async disown(): Promise<void> {
    await this.#call({ op: 'disown' });
  }

  /** Tears the cluster down; resolves when the supervisor itself has gone. Returns what could not be removed. */
  async shutdown(): Promise<string[]> {
    const leftovers = (await this.#call({ op: 'shutdown' })) as string[];
    await until('the supervisor to exit', () => (isAlive(this.identity) ? notYet('still running') : true), {
      timeoutMs: 60_000,
      everyMs: 20,
    });
    this.#socket.destroy();
    return leftovers;
  }

  /** Closes this connection; the cluster goes on. */
  detach(): void {
    this.#socket.destroy();
  }

  #handle(name: string, identity: ProcessIdentity): ProcessHandle {
    return {
      name,
      pid: identity.pid,
      kill: (signal = 'SIGTERM') => this.signal(name, signal),
      stop: async () => {
        await this.signal(name, 'SIGTERM');
        const gone = this.exited(name);
        await until(`${name} to exit`, () => (isAlive(identity) ? notYet('ignores SIGTERM') : true), {
          timeoutMs: 5_000,
          everyMs: 20,
        }).catch(() => this.signal(name, 'SIGKILL'));
        await gone;
      },
    };
  }

  #call(operation: Operation): Promise<unknown> {
    if (this.#socket.destroyed) return Promise.reject(this.#goneError());
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      // The socket is unref'd for idle times; a call in flight has to keep the process alive.
      this.#socket.ref();
      this.#pending.set(id, { resolve, reject });
      this.#socket.write(`${JSON.stringify({ id, ...operation })}\n`);
    });
  }

  #settle(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    if (this.#pending.size === 0) this.#socket.unref();
    if (answer.ok) pending?.resolve(answer.value);
    else pending?.reject(new Error(answer.error));
  }

  #failAll(): void {
    for (const { reject } of this.#pending.values()) reject(this.#goneError());
    this.#pending.clear();
  }

  #goneError(): Error {
    return new Error(
      `the supervisor of cluster ${this.state.name} has gone; see ${join(clusterDir(this.state.name), 'supervisor.log')}`,
    );
  }
}

const identityOrGone = (pid: number): ProcessIdentity => {
  try {
    return identityOf(pid);
  } catch {
    return { pid, startTime: 'gone' };
  }
};

// jest's own settings must not reach programs under test.
function environment(): NodeJS.ProcessEnv {
  const env = { ...process.env };
  for (const key of ['NODE_OPTIONS', 'NODE_ENV', 'JEST_WORKER_ID', 'KUBECONFIG']) delete env[key];
  return env;
}
