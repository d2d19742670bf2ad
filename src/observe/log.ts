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

// fast-redact wildcards stand for one level, so each secret is named at the depths at which objects are logged.
const SECRET_KEYS = [
  'authorization',
  'Authorization',
  'token',
  'password',
  'identitytoken',
  'dockerconfigjson',
  '[".dockerconfigjson"]',
  '[".dockercfg"]',
];
const REDACT = SECRET_KEYS.flatMap((key) => ['', '*', '*.*', '*.*.*'].map((depth) => join(depth, key)));

function join(depth: string, key: string): string {
  return depth === '' || key.startsWith('[') ? `${depth}${key}` : `${depth}.${key}`;
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
  return { ...plain, message: stripSecrets(plain.message), stack: stripSecrets(plain.stack) };
}

/**
 * One JSON object a line on standard output, written synchronously: pino's transports are worker files that a bundle does not
 * hold, and a killed process must not lose its last words.
 */
export function createLog(options: LogOptions): Log {
  return pino(
    {
      level: options.level,
      base: { process: options.name },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: serialiseError },
      redact: { paths: REDACT, censor: '[redacted]' },
    },
    options.destination ?? pino.destination({ dest: 1, sync: true }),
  );
}
