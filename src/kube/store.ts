/** Objects by key with indexes; what changed is told by the return values, and equal versions are no change. */
export class Store<T> {
  readonly #entries = new Map<string, { version: string; value: T }>();
  readonly #indexes = new Map<string, { valuesOf: (t: T) => string[]; keys: Map<string, Set<string>> }>();

  constructor(indexes: Record<string, (t: T) => string[]> = {}) {
    for (const [name, valuesOf] of Object.entries(indexes)) this.#indexes.set(name, { valuesOf, keys: new Map() });
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  keys(): string[] {
    return [...this.#entries.keys()];
  }

  list(): T[] {
    return Array.from(this.#entries.values(), (entry) => entry.value);
  }

  /** @throws RangeError for an index that was not declared: a typing error, not an empty answer */
  byIndex(name: string, value: string): T[] {
    const index = this.#indexes.get(name);
    if (index === undefined)
      throw new RangeError(`no index "${name}"; declared are: ${[...this.#indexes.keys()].join(', ') || 'none'}`);
    const found: T[] = [];
    for (const key of index.keys.get(value) ?? []) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) found.push(entry.value);
    }
    return found;
  }

  /** The version that is held of an object, to tell a change from a repetition. */
  versionOf(key: string): string | undefined {
    return this.#entries.get(key)?.version;
  }

  set(key: string, version: string, value: T): T | undefined {
    const before = this.#entries.get(key)?.value;
    // Index values are taken before anything is stored, so that an index function that throws leaves the store whole.
    const values = [...this.#indexes.values()].map((index) => ({ index, of: index.valuesOf(value) }));
    if (before !== undefined) this.#unindex(key, before);
    this.#entries.set(key, { version, value });
    for (const { index, of } of values) for (const each of of) addTo(index.keys, each, key);
    return before;
  }

  delete(key: string): T | undefined {
    const before = this.#entries.get(key)?.value;
    if (before !== undefined) this.#unindex(key, before);
    this.#entries.delete(key);
    return before;
  }

  #unindex(key: string, value: T): void {
    for (const { valuesOf, keys } of this.#indexes.values()) for (const each of valuesOf(value)) removeFrom(keys, each, key);
  }
}

function addTo(keys: Map<string, Set<string>>, value: string, key: string): void {
  const set = keys.get(value);
  if (set === undefined) keys.set(value, new Set([key]));
  else set.add(key);
}

/** Empty sets go, or an index over UIDs would grow for as long as the process lives. */
function removeFrom(keys: Map<string, Set<string>>, value: string, key: string): void {
  const set = keys.get(value);
  set?.delete(key);
  if (set?.size === 0) keys.delete(value);
}
