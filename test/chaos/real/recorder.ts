import type { ClusterClient, Raw } from '../../cluster/client.js';
import type { FakeNodes } from '../../doubles/fake-kubelet/index.js';
import { sleep } from '../../cluster/until.js';

/** One thing that was seen, at a time of this machine's clock. */
export type Seen =
  | { at: number; what: 'object'; type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Raw }
  /** Images that a node really has, by every name. */
  | { at: number; what: 'images'; node: string; images: readonly string[] }
  /** What a node pulls at this moment. */
  | { at: number; what: 'pulls'; node: string; images: readonly string[] }
  /** Something that the test did. */
  | { at: number; what: 'note'; text: string };

const EVERY_MS = 200;

/**
 * Writes down what a cluster goes through: objects by watches of its own, images by asking the fake kubelets. A watch that ends (the API
 * server restarts) begins again with all objects; what was deleted meanwhile is written down then.
 */
export class Recorder {
  readonly seen: Seen[] = [];
  readonly #client: ClusterClient;
  readonly #nodes: FakeNodes;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];
  #problem: Error | undefined;

  constructor(client: ClusterClient, nodes: FakeNodes, kinds: readonly string[]) {
    this.#client = client;
    this.#nodes = nodes;
    this.#running = [...kinds.map((kind) => this.#follow(kind)), this.#poll()];
  }

  note(text: string): void {
    this.seen.push({ at: Date.now(), what: 'note', text });
  }

  /** Ends the watches; throws what made one of them fail for good. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
    if (this.#problem) throw this.#problem;
  }

  async #follow(kind: string): Promise<void> {
    const known = new Map<string, Raw>();
    while (!this.#stop.signal.aborted) {
      await this.#watch(kind, known).catch(() => undefined);
      if (!this.#stop.signal.aborted) await sleep(100);
    }
  }

  async #watch(kind: string, known: Map<string, Raw>): Promise<void> {
    let initial: Set<string> | undefined = new Set();
    for await (const { type, object } of this.#client.watch(kind, { signal: this.#stop.signal })) {
      const { uid, resourceVersion } = object.metadata;
      if (type === 'BOOKMARK') {
        if (initial !== undefined) this.#vanished(known, initial);
        initial = undefined;
        continue;
      }
      initial?.add(uid);
      if (type === 'DELETED') known.delete(uid);
      else {
        if (known.get(uid)?.metadata.resourceVersion === resourceVersion) continue;
        known.set(uid, object);
      }
      this.#add(type, object);
    }
  }

  #vanished(known: Map<string, Raw>, present: ReadonlySet<string>): void {
    for (const [uid, last] of [...known].filter(([each]) => !present.has(each))) {
      known.delete(uid);
      this.#add('DELETED', last);
    }
  }

  #add(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: Raw): void {
    delete (object.metadata as { managedFields?: unknown }).managedFields;
    this.seen.push({ at: Date.now(), what: 'object', type, object });
  }

  async #poll(): Promise<void> {
    const last = new Map<string, string>();
    while (!this.#stop.signal.aborted) {
      try {
        const [images, pulls] = await Promise.all([this.#nodes.allImages(), this.#nodes.pulls()]);
        const at = Date.now();
        for (const node of this.#nodes.names) {
          this.#changed(last, { at, what: 'images', node, images: images[node] ?? [] });
          this.#changed(last, { at, what: 'pulls', node, images: pulls[node] ?? [] });
        }
      } catch (error) {
        this.#problem ??= error as Error;
        return;
      }
      await sleep(EVERY_MS);
    }
  }

  #changed(last: Map<string, string>, seen: Extract<Seen, { what: 'images' | 'pulls' }>): void {
    const key = `${seen.what} ${seen.node}`;
    const text = [...seen.images].sort().join(' ');
    if (last.get(key) === text) return;
    last.set(key, text);
    this.seen.push(seen);
  }
}
