import { at, string, stringMap } from '../api/json.js';
import { readManifests } from './manifests.js';
import type { Entry } from './manifests.js';

/** What a Namespace among manifests says of itself. */
export interface LearntNamespace {
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
}

/** Files, folders and standard input, which can be read more than once: standard input is kept for that. */
export class ManifestSource {
  readonly #paths: readonly string[];
  readonly #stdin: AsyncIterator<unknown>;
  readonly #kept: unknown[] = [];

  constructor(paths: readonly string[], stdin: AsyncIterable<unknown>) {
    this.#paths = paths;
    this.#stdin = stdin[Symbol.asyncIterator]();
  }

  /** All entries in order. Throws for a path that holds none: in a build, a mistyped one would look as if all were well. */
  async *entries(): AsyncGenerator<Entry> {
    for (const path of this.#paths) {
      let found = false;
      for await (const entry of readManifests(path, this.#replay())) {
        found = true;
        yield entry;
      }
      if (!found)
        throw new Error(
          path === '-'
            ? 'standard input holds no manifest; did the command before it fail?'
            : `${path} holds no manifest; give a file, or a folder with files named *.yaml, *.yml or *.json`,
        );
    }
  }

  /** Every Namespace among the manifests: a Pod may stand before its own. What cannot be read is left to `entries`. */
  async *namespaces(): AsyncGenerator<[name: string, facts: LearntNamespace]> {
    for (const path of this.#paths) {
      // Only documents with the word in them are parsed, since parsing takes most of the time.
      for await (const entry of readManifests(path, this.#replay(), 'Namespace')) {
        const object = 'manifest' in entry ? entry.manifest.object : {};
        const { name, labels, annotations } = at(object, 'metadata');
        const own = string(name);
        if (object['kind'] === 'Namespace' && own !== undefined)
          yield [own, { labels: stringMap(labels), annotations: stringMap(annotations) }];
      }
    }
  }

  async *#replay(): AsyncGenerator<unknown> {
    yield* this.#kept;
    for (;;) {
      const part = await this.#stdin.next();
      if (part.done === true) return;
      this.#kept.push(part.value);
      yield part.value;
    }
  }
}
