import { defaultConfig } from '../config/load.js';
import type { HarbingerConfig, RegistryConfig } from '../config/schema.js';
import { harbingerConfig } from '../config/schema.js';
import type { Reference } from '../images/reference.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import { RegistryError } from '../images/registry-port.js';
import { createRegistry } from '../registry/index.js';
import type { Registry, RegistryDeps } from '../registry/index.js';
import type { Notes } from './ground.js';

/** Registries that one command asks although nobody configured them. */
const MAX_HOSTS = 100;

/**
 * Asks whatever registry an image names, over HTTPS: someone who types a name at a shell means that registry to be asked. The processes ask
 * only what is configured.
 */
export class AnyRegistry implements RegistryPort {
  readonly #deps: RegistryDeps;
  readonly #dockerConfig: string | undefined;
  readonly #byHost = new Map<string, Registry>();

  constructor(deps: RegistryDeps, dockerConfig?: string) {
    this.#deps = deps;
    this.#dockerConfig = dockerConfig;
  }

  async manifest(reference: Reference, options?: LookupOptions): Promise<ManifestFact> {
    return this.#of(reference).manifest(reference, options);
  }

  async config(reference: Reference, digest: string, options?: LookupOptions): Promise<ImageConfig> {
    return this.#of(reference).config(reference, digest, options);
  }

  async referrers(reference: Reference, digest: string, options?: LookupOptions): Promise<ReferrersFact> {
    return this.#of(reference).referrers(reference, digest, options);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#byHost.values()].map((registry) => registry.close()));
  }

  #of({ registry: host }: Reference): Registry {
    const known = this.#byHost.get(host);
    if (known !== undefined) return known;
    if (this.#byHost.size >= MAX_HOSTS) {
      const message = `registry ${host} is not asked: ${MAX_HOSTS} others were already; list those to ask in a file for --config`;
      throw new RegistryError(message, { outcome: 'registry-error', host });
    }
    const made = createRegistry(namedRegistries([host], this.#dockerConfig), this.#deps);
    this.#byHost.set(host, made);
    return made;
  }
}

/** A configuration that knows these hosts only. */
export function namedRegistries(hosts: readonly string[], dockerConfig?: string): HarbingerConfig {
  const credential = dockerConfig === undefined ? {} : { credential: { dockerConfigFile: dockerConfig } };
  return harbingerConfig.parse({ ...defaultConfig(), registries: hosts.map((host) => ({ host, ...credential })) });
}

/**
 * The configuration of a cluster as it can be used at a shell. Its files lie in Harbinger's Pods, and its plugins are programs that
 * nobody at this shell has asked to run.
 * @param dockerConfig docker config file of whoever asks, for all registries
 */
export function localConfig(config: HarbingerConfig, notes: Notes, dockerConfig?: string): HarbingerConfig {
  return { ...config, registries: config.registries.map((registry) => localRegistry(registry, notes, dockerConfig)) };
}

function localRegistry({ credential, caFile, ...registry }: RegistryConfig, notes: Notes, dockerConfig?: string): RegistryConfig {
  const { host } = registry;
  if (caFile !== undefined)
    notes.notRead(`authorities of registry ${host}`, `${caFile} is a file of Harbinger's Pods`, 'those of this system');
  if (dockerConfig !== undefined) {
    const forPods = credential?.forPods ?? true;
    return { ...registry, credential: { dockerConfigFile: dockerConfig, forPods } };
  }
  if (credential !== undefined) {
    const cause = "it is only for Harbinger's Pods; give yours by --docker-config FILE";
    notes.notRead(`credential of registry ${host}`, cause, 'that nobody has to log in');
  }
  return registry;
}
