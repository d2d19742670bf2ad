import { LRUCache } from 'lru-cache';
import { clip } from '../api/conditions.js';
import type { Log } from '../observe/log.js';
import { stripSecrets } from '../observe/log.js';

const MAX_REMEMBERED = 1000;

/** Passes on what registries warn of (`Warning: 299`), each text once: it comes with every answer. */
export class Warnings {
  readonly #log: Log;
  readonly #told = new LRUCache<string, true>({ max: MAX_REMEMBERED });

  constructor(log: Log) {
    this.#log = log;
  }

  /** Rule: distribution specification, "Warnings": code 299, agent `-`, one quoted text without control characters. */
  pass(host: string, header: string | undefined): void {
    const text = /^299 - "((?:[^"\\]|\\.)*)"/.exec((header ?? '').slice(0, 4096))?.[1];
    if (text === undefined) return;
    const warning = stripSecrets(clip(text.replace(/\\(.)/g, '$1'), 300));
    const key = `${host} ${warning}`;
    if (this.#told.has(key)) return;
    this.#told.set(key, true);
    this.#log.warn({ registry: host, warning }, 'a registry warns');
  }
}
