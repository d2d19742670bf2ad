import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The real kubectl on the demo's cluster. What it prints is kept, and the docs show these files. */
export class Kubectl {
  readonly #binary: string;
  readonly #kubeconfig: string;
  readonly #dir: string;

  /** `dir` receives one file per command. */
  constructor(binary: string, kubeconfig: string, dir: string) {
    this.#binary = binary;
    this.#kubeconfig = kubeconfig;
    this.#dir = dir;
    mkdirSync(dir, { recursive: true });
  }

  /** Runs `kubectl ARGS`, keeps its output under the command line's name and returns it. Fails if kubectl does. */
  async show(args: readonly string[]): Promise<{ command: string; output: string }> {
    const command = ['kubectl', ...args.map(quoted)].join(' ');
    const { stdout } = await run(this.#binary, ['--kubeconfig', this.#kubeconfig, ...args], {
      timeout: 60_000,
      maxBuffer: 16 << 20,
    });
    writeFileSync(join(this.#dir, `${slug(command)}.txt`), `$ ${command}\n${stdout}`);
    return { command, output: stdout };
  }
}

/** An argument as it has to be typed into a shell. */
function quoted(argument: string): string {
  return /^[A-Za-z0-9_.,:=/@-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}

function slug(command: string): string {
  return command.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-|-$/g, '');
}
