import { INSTALL } from '../api/names.js';
import type { CredentialChain } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import { chainOf } from '../images/secret-names.js';
import type { PullSecretsOptions } from '../kube/pull-secrets.js';
import { PullSecrets } from '../kube/pull-secrets.js';
import type { PodView } from '../rewrite/pod-view.js';
import { pullSecretsOf } from '../rewrite/pull-secrets.js';

/** What a Pod's images are looked up with. */
export interface FoundCredentials {
  chainFor: (reference: Reference) => CredentialChain;
  /** Secrets that could not be used, as a sentence without any part of a credential. */
  problem: string | undefined;
  /** A registry denied an image although these credentials were tried: they may have been replaced. */
  doubt: () => void;
}

/** Pull secrets of Pods whose admission is under way. */
export class PodCredentials {
  readonly #secrets: PullSecrets;

  constructor(options: Omit<PullSecretsOptions, 'reader'>) {
    this.#secrets = new PullSecrets({ ...options, reader: { name: 'webhook', role: INSTALL.pullSecretsRole } });
  }

  /** The credentials of a Pod of `namespace`, as far as they come within `ms`; what is late serves the next Pod. */
  async of(namespace: string, pod: PodView, ms: number): Promise<FoundCredentials> {
    const { keyrings, problem, doubt } = await this.#secrets.of(namespace, pullSecretsOf(pod), ms);
    return { chainFor: chainOf(keyrings), problem, doubt };
  }
}
