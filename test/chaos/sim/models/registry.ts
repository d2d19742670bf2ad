import { createHash } from 'node:crypto';
import type { Reference } from '../../../../src/images/reference.js';
import type {
  ImageConfig,
  LookupOptions,
  ManifestFact,
  ReferrersFact,
  RegistryPort,
} from '../../../../src/images/registry-port.js';
import { RegistryError } from '../../../../src/images/registry-port.js';
import type { Random } from '../random.js';
import type { Host, Timeline } from '../timeline.js';

/** What is wrong with a repository; `gone` is what a user sees of a typing error. */
export type RegistryTrouble = 'denied' | 'gone' | 'down';

interface Repository {
  tags: Map<string, string>;
  bytes: Map<string, number>;
  trouble: RegistryTrouble | undefined;
}

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const ANSWER_MS = [20, 400] as const;

/** All registries: repositories with tags that move. Kubelets and the controller ask the same one. */
export class SimRegistry {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #repositories = new Map<string, Repository>();

  constructor(timeline: Timeline, random: Random) {
    this.#timeline = timeline;
    this.#random = random;
  }

  /** Pushes an image and lets the tag name it. */
  push(repository: string, tag: string, bytes: number): string {
    const held = this.#repositories.get(repository) ?? { tags: new Map(), bytes: new Map(), trouble: undefined };
    const digest = `sha256:${createHash('sha256').update(`${repository}:${tag}#${held.bytes.size}`).digest('hex')}`;
    held.tags.set(tag, digest);
    held.bytes.set(digest, bytes);
    this.#repositories.set(repository, held);
    return digest;
  }

  trouble(repository: string, trouble: RegistryTrouble | undefined): void {
    const held = this.#repositories.get(repository);
    if (held !== undefined) held.trouble = trouble;
  }

  repositories(): string[] {
    return [...this.#repositories.keys()];
  }

  /** Bytes of what a reference names, or the words with which containerd says that it cannot be had. */
  pull(
    repository: string,
    { tag, digest }: { tag?: string | undefined; digest?: string | undefined },
  ): { digest: string; bytes: number } | { error: string } {
    const held = this.#repositories.get(repository);
    const ref = `"${repository}"`;
    if (held?.trouble === 'down')
      return { error: `failed to resolve image: failed to do request: Head ${ref}: connect: connection refused` };
    if (held?.trouble === 'denied')
      return {
        error: `failed to pull and unpack image ${ref}: pull access denied, authorization failed: no basic auth credentials`,
      };
    const found = digest ?? held?.tags.get(tag ?? 'latest');
    const bytes = found === undefined ? undefined : held?.bytes.get(found);
    if (held?.trouble === 'gone' || found === undefined || bytes === undefined)
      return { error: `rpc error: code = NotFound desc = failed to pull and unpack image ${ref}: not found` };
    return { digest: found, bytes };
  }

  /** The registry as one process reaches it. */
  portOf(host: Host): RegistryPort {
    const answer = async <T>(work: () => T): Promise<T> => {
      await host.receive(this.#timeline.wait(this.#random.int(...ANSWER_MS)));
      return host.receive(work());
    };
    return {
      manifest: (reference: Reference, _options?: LookupOptions) => answer(() => this.#manifest(reference)),
      config: (): Promise<ImageConfig> => answer(() => ({ platform: 'linux/amd64', diffIds: [], traits: {} })),
      referrers: (): Promise<ReferrersFact> => answer(() => ({ referrers: [], how: 'api', detail: 'none' })),
    };
  }

  #manifest(reference: Reference): ManifestFact {
    const { registry, repository, tag, digest } = reference;
    const held = this.#repositories.get(`${registry}/${repository}`);
    const fail = (outcome: 'registry-error' | 'auth-denied' | 'variant-missing', status: number): RegistryError =>
      new RegistryError(`${registry}: ${repository}: ${status}`, { outcome, host: registry, status });
    if (held?.trouble === 'down') throw fail('registry-error', 503);
    if (held?.trouble === 'denied') throw fail('auth-denied', 401);
    const found = digest ?? held?.tags.get(tag ?? 'latest');
    const bytes = found === undefined ? undefined : held?.bytes.get(found);
    if (held?.trouble === 'gone' || found === undefined || bytes === undefined) throw fail('variant-missing', 404);
    return {
      digest: found,
      mediaType: MANIFEST,
      kind: 'manifest',
      manifests: [],
      layers: [],
      config: { digest: found, mediaType: CONFIG, size: 100, annotations: {} },
      annotations: {},
      sizeBytes: bytes,
    };
  }
}
