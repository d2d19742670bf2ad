import { createHash } from 'node:crypto';
import { list, parseObject, record, records, string } from '../api/json.js';
import type { Json } from '../api/json.js';
import { isPlatformWord, platformText } from './platform.js';
import { isDigest } from './reference.js';
import type { ImageConfig, Trait } from './registry-port.js';

export type ParsedConfig = { ok: true; config: ImageConfig } | { ok: false; problem: string };

/** Far above what a runtime can stack; a longer list is no image but an attempt to use up memory. */
const MAX_LAYERS = 1024;
/** Reproducible builds stamp a fixed time; such a time says nothing about which build it was. */
const FIRST_REAL_TIME = Date.parse('1981-01-01T00:00:00Z');

/**
 * History entries that belong to how an image was converted or exported, not to what it is made of: nydus-snapshotter's converter, the
 * base layer of accelerated-container-image, and the entries by which BuildKit's exporter fills up. eStargz converters write none.
 */
const CONVERTER_COMMENTS: ReadonlySet<string> = new Set([
  'Nydus Bootstrap Layer',
  'Nydus Data Layer',
  'buildkit.exporter.image.v0',
]);
const CONVERTER_COMMANDS = /^Nydus (?:Converter|Build)$|\binit overlaybd base layer$/;

/** What each trait is read from; undefined and empty values are no trait. */
const READERS: Readonly<Record<Trait, (body: Json, config: Json) => unknown>> = {
  created: (body) => realTime(body['created']),
  history: (body) => history(body['history']),
  environment: (_, config) => list(config['Env']),
  command: (_, config) => config['Cmd'],
  entrypoint: (_, config) => config['Entrypoint'],
  labels: (_, config) => sorted(config['Labels']),
  user: (_, config) => config['User'],
  workingDir: (_, config) => config['WorkingDir'],
  volumes: (_, config) => sorted(config['Volumes']),
  stopSignal: (_, config) => config['StopSignal'],
};

/** Reads platform, unpacked layers and traits from an image config blob. Total. Traits are hashed: configs can be large, and are only compared. */
export function parseConfig(text: string): ParsedConfig {
  const body = parseObject(text);
  const [os = '', architecture = '', variant] = ['os', 'architecture', 'variant'].map((key) => string(body?.[key]));
  if (body === undefined || ![os, architecture, variant ?? 'v1'].every(isPlatformWord))
    return { ok: false, problem: 'its config names no platform' };
  const platform = platformText(os, architecture, variant);
  return { ok: true, config: { platform, diffIds: diffIdsOf(body), traits: traitsOf(body) } };
}

/** One bad entry spoils the list: half of it would compare as another image. */
function diffIdsOf(body: Json): readonly string[] {
  const ids = list(record(body['rootfs'])?.['diff_ids']) ?? [];
  const valid = ids.filter((id): id is string => typeof id === 'string' && isDigest(id));
  return valid.length === ids.length && ids.length <= MAX_LAYERS ? valid : [];
}

function traitsOf(body: Json): ImageConfig['traits'] {
  const config = record(body['config']) ?? {};
  const entries = Object.entries(READERS).flatMap(([trait, read]) => {
    const value = read(body, config);
    return isEmpty(value) ? [] : [[trait, hash(value)]];
  });
  return Object.fromEntries(entries) as ImageConfig['traits'];
}

/** Go writes absent lists as null or leaves them out; to a runtime all of these are the same. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function realTime(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return time >= FIRST_REAL_TIME ? time : undefined;
}

/** Commands only: some converters stamp the time of the conversion on each entry. */
function history(value: unknown): unknown {
  return records(value)
    .filter((entry) => !CONVERTER_COMMENTS.has(string(entry['comment']) ?? ''))
    .map((entry) => string(entry['created_by']) ?? '')
    .filter((command) => !CONVERTER_COMMANDS.test(command));
}

function sorted(value: unknown): unknown {
  return Object.entries(record(value) ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 22);
}
