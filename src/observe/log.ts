import type { DestinationStream, Logger } from 'pino';
import { pino, stdSerializers, stdTimeFunctions } from 'pino';

export type Log = Logger;

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogOptions {
  level: LogLevel;
  /** Process name; stands in every line. */
  name: string;
  /** Where lines go; standard output when absent. */
  destination?: DestinationStream;
}

const SECRET_KEYS: ReadonlySet<string> = new Set([
  'authorization',
  'token',
  'password',
  'identitytoken',
  'dockerconfigjson',
  '.dockerconfigjson',
  '.dockercfg',
]);
const CENSORED = '[redacted]';
/** Levels of objects that are looked through; what is logged is no deeper. */
const REDACTED_LEVELS = 5;

/**
 * The fields without secrets; the very object where there are none. Written here because the paths of pino's redaction, with a wildcard
 * for each level, took more time than all else of a warm admission.
 */
function redact(fields: Record<string, unknown>, levels = REDACTED_LEVELS): Record<string, unknown> {
  let copy: Record<string, unknown> | undefined;
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    const safe = SECRET_KEYS.has(key.toLowerCase()) ? CENSORED : redactValue(value, levels);
    if (safe !== value) copy = { ...(copy ?? fields), [key]: safe };
  }
  return copy ?? fields;
}

function redactValue(value: unknown, levels: number): unknown {
  if (typeof value !== 'object' || value === null || levels === 0) return value;
  if (Array.isArray(value)) {
    const safe = value.map((entry) => redactValue(entry, levels - 1));
    return safe.some((entry, i) => entry !== value[i]) ? safe : value;
  }
  // Errors and the like are for their serialisers, which would not know a copy.
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  return redact(value as Record<string, unknown>, levels - 1);
}

/**
 * Removes what may carry a credential from a text of foreign origin: user info and query of URLs, bearer and basic tokens.
 * Registries redirect to signed URLs whose query is the credential.
 */
export function stripSecrets(text: string): string {
  return text
    .replace(/(\bhttps?:\/\/)[^\s/@"']*@/gi, '$1')
    .replace(/(\bhttps?:\/\/[^\s?"']*)\?[^\s"']*/gi, '$1?…')
    .replace(/\b(bearer|basic)\s+(?!realm=)[A-Za-z0-9._~+/=-]{8,}/gi, '$1 …');
}

function serialiseError(error: Error): unknown {
  const plain = stdSerializers.err(error);
  return redact({ ...plain, message: stripSecrets(plain.message), stack: stripSecrets(plain.stack) });
}

/**
 * Standard output, written synchronously at the end of each turn of the event loop: pino's transports are worker files that a bundle does
 * not hold, and a process must not lose its last words. One write a turn and not one a line, as a busy webhook has a line for each Pod.
 */
function standardOutput(): DestinationStream {
  const sink = pino.destination({ dest: 1, sync: true });
  let lines: string[] = [];
  const flush = (): void => {
    const text = lines.join('');
    lines = [];
    if (text !== '') sink.write(text);
  };
  process.once('exit', flush);
  return {
    write: (line) => {
      if (lines.push(line) === 1) setImmediate(flush);
    },
  };
}

/** One JSON object a line. */
export function createLog(options: LogOptions): Log {
  return pino(
    {
      level: options.level,
      base: { process: options.name },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), bindings: (fields) => redact(fields), log: (fields) => redact(fields) },
      serializers: { err: serialiseError },
    },
    options.destination ?? standardOutput(),
  );
}
