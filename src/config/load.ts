import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import type { HarbingerConfig } from './schema.js';
import { harbingerConfig } from './schema.js';
import { readYaml } from './yaml.js';

/** The configuration cannot be used; the message names the file, each bad field and what is wrong with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** What holds when there is no file. */
export function defaultConfig(): HarbingerConfig {
  return deepFreeze(harbingerConfig.parse({}));
}

/** Parses YAML text; `origin` names it in errors. An empty text means defaults. Throws ConfigError. */
export function parseConfig(text: string, origin: string): HarbingerConfig {
  const [first, second] = readYaml(text);
  if (first !== undefined && 'problem' in first) throw new ConfigError(`${origin}: line ${first.line}: ${first.problem}`);
  if (second !== undefined) throw new ConfigError(`${origin}: line ${second.line}: a second document; a configuration is one`);
  const result = harbingerConfig.safeParse(first?.value ?? {});
  if (!result.success) throw new ConfigError(`${origin}: ${result.error.issues.map(describe).join('; ')}`);
  return deepFreeze(result.data);
}

/** Reads `path`, or gives the defaults when there is none. Throws ConfigError. */
export async function loadConfig(path: string | undefined): Promise<HarbingerConfig> {
  if (path === undefined) return defaultConfig();
  return parseConfig(await readConfig(path), path);
}

/** The text of the file; a missing or unreadable one is a ConfigError that names the way out. */
export async function readConfig(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (err) {
    throw new ConfigError(`cannot read the configuration: ${(err as Error).message}; give its path with --config`, {
      cause: err,
    });
  }
}

function describe(issue: z.core.$ZodIssue): string {
  const where = issue.path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : `${text}${text && '.'}${String(part)}`),
    '',
  );
  return `${where || 'top level'}: ${issue.message}`;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
