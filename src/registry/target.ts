import type { RegistryConfig } from '../config/schema.js';
import { fingerprint } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact } from '../images/registry-port.js';

/** A question to one particular host. */
export interface HostOptions extends LookupOptions {
  /** The mirror to ask instead of the registry that the reference names. */
  mirror?: RegistryConfig;
}

/** Registries one host at a time; that a registry may have mirrors is known above. */
export interface HostPort {
  manifest(reference: Reference, options?: HostOptions): Promise<ManifestFact>;
  config(reference: Reference, digest: string, options?: HostOptions): Promise<ImageConfig>;
  referrers(reference: Reference, digest: string, options?: HostOptions): Promise<ReferrersFact>;
}

/** A call that is still to be sent to a host of the caller's choice. */
export type HostCall<T> = (options: HostOptions) => Promise<T>;

/** Whose credential goes along with a question: nobody's, the Pod's, Harbinger's, or nobody's because Harbinger's may not serve Pods. */
export type Sender = 'anybody' | 'pod' | 'own' | 'not-for-pods';

/** Whose credential `host` is asked with. A Pod's is for the registry that its secret names: a mirror never sees it. */
export function senderOf({ credential, mirror, anonymous, forPod = false }: HostOptions, host: RegistryConfig): Sender {
  if (anonymous === true) return 'anybody';
  if (mirror === undefined && credential !== undefined) return 'pod';
  const byPod = forPod || credential !== undefined;
  return byPod && host.credential?.forPods === false ? 'not-for-pods' : 'own';
}

/** Who asks, as a registry can tell: it counts and limits each credential by itself, so one tenant's must not pause the others. */
export function askerOf(options: HostOptions, host: RegistryConfig): string {
  const sender = senderOf(options, host);
  if (sender === 'pod') return fingerprint(options.credential);
  return sender === 'own' && host.credential !== undefined ? 'own' : 'anybody';
}

/**
 * The project or organisation of an image, which is what fails or limits alone: a proxy project whose upstream is dead says nothing of
 * the others. With the registry, as a mirror may serve several.
 */
export function partOf({ registry, repository }: Reference): string {
  return `${registry}/${repository.split('/', 1)[0]}`;
}
