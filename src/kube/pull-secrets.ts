import { LRUCache } from 'lru-cache';
import { at, stringMap } from '../api/json.js';
import type { KubeObject } from '../api/object.js';
import type { Keyring } from '../images/pull-secret.js';
import { parsePullSecret } from '../images/pull-secret.js';
import type { SecretNames } from '../images/secret-names.js';
import { secretNames } from '../images/secret-names.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { withinBudget } from '../observe/within-budget.js';
import { isForbidden, isNotFound } from './errors.js';
import type { KubePort } from './port.js';
import type { Resource } from './resources.js';
import { RESOURCE } from './resources.js';

/** What images of one namespace are looked up with. */
export interface FoundSecrets {
  keyrings: readonly Keyring[];
  /** Names of the secrets that were asked for. */
  names: readonly string[];
  /** Secrets that could not be used, as a sentence without any part of a credential. */
  problem: string | undefined;
  /** A registry denied an image although these credentials were tried: they may have been replaced. */
  doubt: () => void;
}

export interface PullSecretsOptions {
  client: Pick<KubePort, 'get'>;
  clock: Clock;
  log: Log;
  /** Who reads, and the ClusterRole that lets it read where it is bound: for messages. */
  reader: { name: string; role: string };
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
 * Pull secrets, read by `get` of the one that is named: nothing is listed or watched, so a process holds no more of a tenant than its
 * Pods use, and that for a minute. What may not be read, or is not there, is gone on without. Credentials never reach a log or a message.
 */
export class PullSecrets {
  readonly #options: PullSecretsOptions;
  readonly #kept: LRUCache<string, Kept, Wanted>;
  readonly #told: LRUCache<string, string>;

  constructor(options: PullSecretsOptions) {
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

  /** The secrets that Pods of `namespace` name, as far as they come within `ms`; what is late serves whoever asks next. */
  async of(namespace: string, named: SecretNames, ms: number): Promise<FoundSecrets> {
    const until = this.#options.clock.now() + ms;
    const account =
      'serviceAccount' in named ? await this.#all(RESOURCE.serviceAccounts, namespace, [named.serviceAccount], ms) : [];
    const names = 'secrets' in named ? named.secrets : account.flatMap((a) => a.names);
    const secrets = await this.#all(RESOURCE.secrets, namespace, names, until - this.#options.clock.now());
    const problems = [...account, ...secrets].flatMap((kept) => kept.problem ?? []);
    return {
      keyrings: secrets.flatMap((s) => s.keyrings),
      names,
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
      return this.#failed(wanted, this.#causeOf(err, namespace));
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

  /** No words of the API server or of the object: nothing of a secret may end up in them. */
  #causeOf(err: unknown, namespace: string): string {
    const { name, role } = this.#options.reader;
    if (isForbidden(err)) return `may not be read by the ${name}; bind ClusterRole ${role} in namespace ${namespace}`;
    return isNotFound(err) ? 'does not exist' : 'could not be read from the API server';
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
