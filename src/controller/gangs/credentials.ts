import type { ImagePrewarm } from '../../api/kinds/index.js';
import { INSTALL } from '../../api/names.js';
import type { HarbingerConfig } from '../../config/schema.js';
import type { CredentialChain } from '../../images/credential-chain.js';
import type { Reference } from '../../images/reference.js';
import { MAX_SECRETS, ownChainOf } from '../../images/secret-names.js';
import type { FoundSecrets, PullSecretsOptions } from '../../kube/pull-secrets.js';
import { PullSecrets } from '../../kube/pull-secrets.js';

/** What images of a gang are asked for with before anything of its own is read. */
export const OWN_CREDENTIAL: CredentialChain = [undefined];

/** What the gang itself can show for an image. */
export interface GangAccess {
  /** In the order of kubelets; empty where nothing of the gang's is for this image, or none may be used. */
  chain: CredentialChain;
  /** Why there is less than the gang names, and the way out; without any part of a credential. */
  problem: string | undefined;
  /** The registry denied all of it: secrets that are remembered may have been replaced. */
  doubt: () => void;
}

export interface GangCredentialsPort {
  of(prewarm: ImagePrewarm, source: string, reference: Reference): Promise<GangAccess>;
  /** Whether an image that was not read may be pulled all the same, with what pullers and nodes have. */
  mayPullUnread(reference: Reference): boolean;
}

/** Longest that secrets of one image are waited for, ms. */
const READ_MS = 10_000;

const OFF: GangAccess = {
  chain: [],
  problem:
    "pull secrets of gangs are not used; to allow it set pullers.workloadNamespaces to WhereAllowed and bind ClusterRole harbinger-workload-pullers in the gang's namespace",
  doubt: () => undefined,
};

/**
 * Pull secrets of gangs, used only after Harbinger's own credential was denied. They come from the namespace of the object alone, and
 * answers are remembered under the credential that got them: what one namespace can read is never told to another (promise P6).
 */
export class GangCredentials implements GangCredentialsPort {
  readonly #secrets: PullSecrets;
  readonly #config: () => Pick<HarbingerConfig, 'pullers' | 'registries'>;

  constructor({
    config,
    ...options
  }: Omit<PullSecretsOptions, 'reader'> & { config: () => Pick<HarbingerConfig, 'pullers' | 'registries'> }) {
    this.#secrets = new PullSecrets({ ...options, reader: { name: 'controller', role: INSTALL.workloadPullersRole } });
    this.#config = config;
  }

  async of(prewarm: ImagePrewarm, source: string, reference: Reference): Promise<GangAccess> {
    if (this.#config().pullers.workloadNamespaces === 'Off') return OFF;
    const { namespace = '' } = prewarm.metadata;
    const named = secretsOf(prewarm, source);
    const found = await Promise.all(named.map((n) => this.#secrets.of(namespace, n, READ_MS)));
    const chain = ownChainOf(found.flatMap((f) => f.keyrings))(reference);
    return { chain, problem: problemOf(found, chain, reference), doubt: () => found.forEach((f) => f.doubt()) };
  }

  /**
   * Kubelets have credentials that the controller has not, and pull with them for any Pod. Pullers' own secrets serve gangs too, unless
   * whoever installed Harbinger said of this registry that its rights show gangs nothing.
   */
  mayPullUnread({ registry }: Reference): boolean {
    const { pullers, registries } = this.#config();
    const guarded = registries.find((r) => r.host === registry)?.credential?.forPods === false;
    return !guarded || pullers.pullSecrets.length === 0;
  }
}

/** As the API server fills Pods in: secrets of the service account count only where none are named. */
function secretsOf({ spec }: ImagePrewarm, source: string): ({ secrets: string[] } | { serviceAccount: string })[] {
  const targets = spec.targets.filter((t) => t.images.some((i) => i.reference === source));
  const secrets = [...new Set(targets.flatMap((t) => t.imagePullSecrets?.map((s) => s.name) ?? []))].slice(0, MAX_SECRETS);
  const accounts = targets
    .filter(({ imagePullSecrets = [] }) => imagePullSecrets.length === 0)
    .map((t) => t.serviceAccountName ?? 'default');
  return [
    ...(secrets.length === 0 ? [] : [{ secrets }]),
    ...[...new Set(accounts)].map((serviceAccount) => ({ serviceAccount })),
  ];
}

function problemOf(
  found: readonly FoundSecrets[],
  chain: CredentialChain,
  { registry, repository }: Reference,
): string | undefined {
  const problems = found.flatMap((f) => f.problem ?? []);
  if (problems.length > 0) return problems.join('; ');
  if (chain.length > 0) return undefined;
  const names = found.flatMap((f) => f.names);
  return names.length === 0
    ? 'the gang names no pull secret (imagePullSecrets of its Pods or of their service account)'
    : `no pull secret of the gang (${names.join(', ')}) has an entry for ${registry}/${repository}`;
}
