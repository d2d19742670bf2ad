import type { Command } from 'commander';

/** Adds the commands for people. Heavy imports belong into their actions, so that `--help` stays quick. */
export function registerCli(_program: Command): void {}
