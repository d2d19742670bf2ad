import { randomBytes } from 'node:crypto';
import { wait, type Clock } from './clock.js';
import type { Knobs } from './knobs.js';
import type { SharedLink } from './link.js';
import { format, type Reference } from './reference.js';
import { failure, type Credential, type ImageFacts, type RegistryReader } from './registry.js';

/** An image on a node. */
export interface StoredImage {
  /** Top digest: of the index where the image has one. */
  digest: string;
  configDigest: string;
  /** `repo@digest` first, then tags: as the kubelet lists them. */
  names: string[];
  blobs: ReadonlyMap<string, number>;
}

/** What all fake nodes have in common. */
export interface World {
  clock: Clock;
  link: SharedLink;
  registry: RegistryReader;
  /** Told of every part that the link has carried. */
  count(node: string, image: string, bytes: number): void;
}

/**
 * Images of one fake node. Layers are kept by digest, so that two images that share one fetch it once; a pull belongs to the node, not to
 * the Pod that asked for it.
 */
export class ImageStore {
  readonly #node: string;
  readonly #world: World;
  readonly #diskBytes: number;
  readonly #knobs: () => Knobs;
  readonly #onChange: () => void;
  readonly #images = new Map<string, StoredImage>();
  readonly #pulls = new Map<string, Promise<StoredImage>>();
  readonly #blobs = new Map<string, Promise<void>>();

  constructor(o: { node: string; world: World; diskBytes: number; knobs: () => Knobs; onChange: () => void }) {
    this.#node = o.node;
    this.#world = o.world;
    this.#diskBytes = o.diskBytes;
    this.#knobs = o.knobs;
    this.#onChange = o.onChange;
  }

  list(): StoredImage[] {
    return [...this.#images.values()];
  }

  /** References that are being pulled now. */
  pulling(): string[] {
    return [...this.#pulls.keys()].map((key) => (JSON.parse(key) as [string, unknown])[0]);
  }

  find(reference: Reference): StoredImage | undefined {
    return this.list().find((image) => image.names.includes(format(reference)));
  }

  /** Forgets images, all when none is named by digest. Blobs that no other image has go too. */
  drop(digests?: readonly string[]): void {
    for (const digest of digests ?? [...this.#images.keys()]) this.#images.delete(digest);
    const held = new Set(this.list().flatMap((image) => [...image.blobs.keys()]));
    for (const blob of this.#blobs.keys()) if (!held.has(blob)) this.#blobs.delete(blob);
    this.#onChange();
  }

  /** Pulls, or joins the pull of the same image that runs. Rejects with PullError. */
  pull(reference: Reference, credentials: readonly Credential[]): Promise<StoredImage> {
    // Different credentials may have different answers, so they do not join.
    const key = JSON.stringify([format(reference), credentials]);
    const running = this.#pulls.get(key) ?? this.#pull(reference, credentials).finally(() => this.#pulls.delete(key));
    this.#pulls.set(key, running);
    return running;
  }

  async #pull(reference: Reference, credentials: readonly Credential[]): Promise<StoredImage> {
    const facts = await this.#world.registry.resolve(reference, credentials);
    await this.#fetch(reference, facts);
    const byDigest = `${reference.registry}/${reference.repository}@${facts.digest}`;
    const before = this.#images.get(facts.digest)?.names ?? [];
    const names = [...new Set([byDigest, ...before, format(reference)])].sort(
      (a, b) => Number(b.includes('@')) - Number(a.includes('@')),
    );
    const image = { digest: facts.digest, configDigest: facts.configDigest, names, blobs: facts.blobs };
    // A tag names one image: it leaves the one that had it.
    for (const other of this.list())
      if (other.digest !== facts.digest) other.names = other.names.filter((name) => !names.includes(name));
    this.#images.set(facts.digest, image);
    this.#onChange();
    return image;
  }

  async #fetch(reference: Reference, { blobs }: ImageFacts): Promise<void> {
    const missing = [...blobs].filter(([digest]) => !this.#blobs.has(digest));
    const used = this.list().reduce((sum, image) => sum + [...image.blobs.values()].reduce((a, b) => a + b, 0), 0);
    const needed = missing.reduce((sum, [, size]) => sum + size, 0);
    if (this.#knobs().diskFull || used + needed > this.#diskBytes) {
      const file = `/var/lib/containerd/io.containerd.content.v1.content/ingest/${randomBytes(32).toString('hex')}/data`;
      throw failure(reference, `failed to copy: write ${file}: no space left on device`);
    }
    for (const [digest, size] of missing) this.#blobs.set(digest, this.#transfer(reference, size));
    try {
      await Promise.all([...blobs.keys()].map(async (digest) => this.#blobs.get(digest)));
      while (this.#knobs().hang) await wait(this.#world.clock, 200);
      const text = this.#knobs().pullFails;
      if (text !== undefined) throw failure(reference, text);
    } catch (error) {
      for (const [digest] of missing) this.#blobs.delete(digest);
      throw error;
    }
  }

  #transfer(reference: Reference, size: number): Promise<void> {
    return this.#world.link.transfer(size, (bytes) => this.#world.count(this.#node, format(reference), bytes));
  }
}
