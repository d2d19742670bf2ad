import { LRUCache } from 'lru-cache';
import { at, stringMap } from '../api/json.js';
import type { KubeObject } from '../api/object.js';
import { INSTALL } from '../api/names.js';
import type { CredentialChain } from '../images/credential-chain.js';
import type { Keyring } from '../images/pull-secret.js';
import { parsePullSecret } from '../images/pull-secret.js';
import type { Reference } from '../images/reference.js';
import { isForbidden, isNotFound } from '../kube/errors.js';
import type { KubePort } from '../kube/port.js';
import type { Resource } from '../kube/resources.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { PodView } from '../rewrite/pod-view.js';
import { chainOf, pullSecretsOf, secretNames } from '../rewrite/pull-secrets.js';
import { withinBudget } from './budget.js';

/** What a Pod's images are looked up with. */
export interface FoundCredentials {
  chainFor: (reference: Reference) => CredentialChain;
  /** Secrets that could not be used, as a sentence without any part of a credential. */
  problem: string | undefined;
  /** A registry denied an image although these credentials were tried: they may have been replaced. */
  doubt: () => void;
}

/** What is kept of a Secret or a ServiceAccount. */
interface Kept {
  keyrings: readonly Keyring[];
  /** Names of pull secrets; of a ServiceAccount only. */
  names: readonly string[];
  problem?: string;
  readAt: number;
}

interface Wanted {
  namespace: string;
  name: string;
  resource: Resource;
}

/** A rotated secret is seen after so long, or as soon as a registry denies an image. */
const KEEP_MS = 60_000;
/** Rights are granted and secrets made while people watch their Pods fail. */
const KEEP_PROBLEM_MS = 15_000;
/** A denied image may well be denied for good: its secrets are not read for each Pod. */
const DOUBT_AFTER_MS = 5_000;
const GET_TIMEOUT_MS = 2_000;

const MAX_KEPT = 5_000;
const MAX_KEPT_BYTES = 32 << 20;
/** Entries of one secret; each admission looks through all of them. */
const MAX_ENTRIES = 500;
const MAX_TOLD = 1_000;
const TOLD_MS = 3_600_000;

/**
 * Pull secrets of Pods, read by `get` of the one that a Pod names: nothing is listed or watched, so the webhook holds no more of a
 * tenant than its Pods use. What may not be read, or is not there, is gone on without. Credentials never reach a log or a message.
 */
export class PodCredentials {
  readonly #options: { client: Pick<KubePort, 'get'>; clock: Clock; log: Log };
  readonly #kept: LRUCache<string, Kept, Wanted>;
  readonly #told: LRUCache<string, string>;

  constructor(options: { client: Pick<KubePort, 'get'>; clock: Clock; log: Log }) {
    this.#options = options;
    // Time comes from the clock, so tests need not wait.
    const time = { perf: options.clock, ttlResolution: 0 };
    this.#told = new LRUCache({ max: MAX_TOLD, ttl: TOLD_MS, ...time });
    this.#kept = new LRUCache<string, Kept, Wanted>({
      max: MAX_KEPT,
      maxSize: MAX_KEPT_BYTES,
      sizeCalculation: ({ keyrings }) => 500 + keyrings.reduce((sum, { entries }) => sum + 500 * entries.length, 0),
      ttl: KEEP_MS,
      ...time,
      ignoreFetchAbort: true,
      fetchMethod: async (_key, _stale, { options: how, context }) => {
        const kept = await this.#read(context);
        if (kept.problem !== undefined) how.ttl = KEEP_PROBLEM_MS;
        return kept;
      },
    });
  }

  /** The credentials of a Pod of `namespace`, as far as they come within `ms`; what is late serves the next Pod. */
  async of(namespace: string, pod: PodView, ms: number): Promise<FoundCredentials> {
    const until = this.#options.clock.now() + ms;
    const named = pullSecretsOf(pod);
    const account =
      'serviceAccount' in named ? await this.#all(RESOURCE.serviceAccounts, namespace, [named.serviceAccount], ms) : [];
    const names = 'secrets' in named ? named.secrets : account.flatMap((a) => a.names);
    const secrets = await this.#all(RESOURCE.secrets, namespace, names, until - this.#options.clock.now());
    const problems = [...account, ...secrets].flatMap((kept) => kept.problem ?? []);
    return {
      chainFor: chainOf(secrets.flatMap((s) => s.keyrings)),
      problem: problems.length === 0 ? undefined : problems.join('; '),
      doubt: () => this.#doubt(namespace, names),
    };
  }

  async #all(resource: Resource, namespace: string, names: readonly string[], ms: number): Promise<Kept[]> {
    const wanted = names.map((name): Wanted => ({ namespace, name, resource }));
    const kept = wanted.map((w) => this.#kept.get(keyOf(w)));
    if (kept.every((k) => k !== undefined)) return kept;
    const running = new Map(wanted.map((w) => [w.name, this.#fetch(w)]));
    const arrived = await withinBudget(running, Math.max(0, ms), this.#options.clock);
    return wanted.map((w) => arrived.get(w.name) ?? this.#failed(w, 'was not read in time'));
  }

  async #fetch(wanted: Wanted): Promise<Kept> {
    const kept = await this.#kept.fetch(keyOf(wanted), { context: wanted });
    return kept ?? this.#failed(wanted, 'could not be read');
  }

  async #read(wanted: Wanted): Promise<Kept> {
    const { namespace, name, resource } = wanted;
    try {
      const raw = await this.#options.client.get<KubeObject & Record<string, unknown>>(
        resource,
        { namespace, name },
        { timeoutMs: GET_TIMEOUT_MS },
      );
      this.#told.delete(keyOf(wanted));
      return resource === RESOURCE.secrets
        ? this.#readSecret(wanted, raw)
        : this.#keep({ names: secretNames(raw['imagePullSecrets']) });
    } catch (err) {
      return this.#failed(wanted, causeOf(err, namespace));
    }
  }

  #readSecret(wanted: Wanted, raw: KubeObject & Record<string, unknown>): Kept {
    const keyring = parsePullSecret({ data: stringMap(at(raw)['data']) });
    if (keyring.entries.length > MAX_ENTRIES) return this.#failed(wanted, `has more than ${MAX_ENTRIES} registries`);
    const [problem] = keyring.problems;
    if (keyring.entries.length === 0 && problem !== undefined) return this.#failed(wanted, `cannot be used: ${problem}`);
    return this.#keep({ keyrings: [keyring] });
  }

  #keep(parts: Partial<Kept>): Kept {
    return { keyrings: [], names: [], readAt: this.#options.clock.now(), ...parts };
  }

  /** Told once an hour, or when it is another problem: a gang of a thousand Pods names the same secret. */
  #failed(wanted: Wanted, cause: string): Kept {
    const { namespace, name, resource } = wanted;
    const problem = `${resource.kind} ${namespace}/${name} ${cause}`;
    if (this.#told.get(keyOf(wanted)) !== problem) {
      this.#told.set(keyOf(wanted), problem);
      this.#options.log.warn({ problem }, 'images are looked up without a pull secret of their Pod');
    }
    return this.#keep({ problem });
  }

  #doubt(namespace: string, names: readonly string[]): void {
    const old = this.#options.clock.now() - DOUBT_AFTER_MS;
    for (const name of names) {
      const key = keyOf({ namespace, name, resource: RESOURCE.secrets });
      const kept = this.#kept.peek(key);
      if (kept !== undefined && kept.readAt < old) this.#kept.delete(key);
    }
  }
}

function keyOf({ resource, namespace, name }: Wanted): string {
  return `${resource.plural}/${namespace}/${name}`;
}

/** No words of the API server or of the object: nothing of a secret may end up in them. */
function causeOf(err: unknown, namespace: string): string {
  if (isForbidden(err))
    return `may not be read by the webhook; bind ClusterRole ${INSTALL.pullSecretsRole} in namespace ${namespace}`;
  return isNotFound(err) ? 'does not exist' : 'could not be read from the API server';
}
