import { makePolicy } from '../rewrite/builders.js';
import type { HostileOptions } from './hostile-ground.js';
import { HostileGround } from './hostile-ground.js';

export interface PolicyDraft {
  name: string;
  spec?: Record<string, unknown>;
}

/** What the process does before it answers with its state. */
export interface Command {
  policies?: readonly PolicyDraft[];
  /** Takes so much memory and gives it back at once. */
  wasteMb?: number;
}

export interface Started {
  port: number;
  /** PEM. */
  ca: string;
}

export interface State {
  /** In flight. */
  requests: number;
  bytes: number;
  /** Questions to the registry since the start. */
  asked: number;
  /** CPU time since the start, of all threads. */
  cpuMs: number;
}

const ground = new HostileGround(JSON.parse(process.argv[2] ?? '{}') as HostileOptions);
const say = (message: Started | State): void => void process.send?.(message);

process.on('message', ({ policies, wasteMb = 0 }: Command) => {
  if (policies !== undefined) ground.policies = policies.map(({ name, spec }) => makePolicy(name, spec));
  // Filled, because pages that nobody wrote to are not resident.
  Buffer.alloc(wasteMb * 1e6, 1);
  const { user, system } = process.cpuUsage();
  const { requests, bytes } = ground.overload;
  say({ requests, bytes, asked: ground.registry.asked.length, cpuMs: (user + system) / 1_000 });
});
process.on('disconnect', () => process.exit());
await ground.server.listen();
say({ port: ground.server.port, ca: ground.ca });
