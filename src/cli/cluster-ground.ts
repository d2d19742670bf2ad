import { at, list, records, string, stringMap } from '../api/json.js';
import type { Json } from '../api/json.js';
import { GROUP, LABEL } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import { defaultConfig } from '../config/load.js';
import type { HarbingerConfig } from '../config/schema.js';
import { gangKeys, gangKeysOfPod } from '../gangs/identity.js';
import { parsePullSecret } from '../images/pull-secret.js';
import type { Keyring } from '../images/pull-secret.js';
import type { KubePort } from '../kube/port.js';
import { RESOURCE } from '../kube/resources.js';
import { constraintsOf } from '../placement/constraints.js';
import { landingOf } from '../placement/landing.js';
import type { Landing } from '../placement/landing.js';
import type { NodeClasses } from '../placement/node-classes.js';
import { quarantineOf } from '../placement/quarantine.js';
import type { Policy } from '../rewrite/policy-match.js';
import { viewPod } from '../rewrite/pod-view.js';
import { chainOf, secretNames } from '../images/secret-names.js';
import type { SecretNames } from '../images/secret-names.js';
import { pullSecretsOf } from '../rewrite/pull-secrets.js';
import { readRecord } from '../rewrite/record.js';
import type { GangRecord } from '../rewrite/record.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import { ClusterReader } from './cluster-reader.js';
import type { Raw } from './cluster-reader.js';
import { Notes } from './ground.js';
import type { Ground, PodCredentials, PodQuestion } from './ground.js';
import { assume } from './landing.js';
import type { Assumptions } from './landing.js';

export interface ClusterOptions {
  client: Pick<KubePort, 'get' | 'list'>;
  /** Namespace that Harbinger is installed in. */
  installedIn: string;
  /** Configuration of a file, instead of that of the cluster. */
  config?: HarbingerConfig | undefined;
  /** Policies of files, instead of those of the cluster. */
  policies?: readonly Policy[] | undefined;
  /** Nodes of a file, instead of those of the cluster. */
  nodes?: ((config: HarbingerConfig) => Promise<NodeClasses>) | undefined;
  /** Labels that every namespace is taken to have as well. */
  namespaceLabels: Readonly<Record<string, string>>;
  assumptions: Assumptions;
  /** Epoch ms. */
  now: () => number;
}

/** What all Pods have in common. */
interface Common {
  reader: ClusterReader;
  notes: Notes;
  config: HarbingerConfig;
  configured: boolean;
  policies: readonly Policy[];
  classes: NodeClasses | undefined;
}

interface Prewarm {
  ref: Json;
  record: GangRecord;
}

/** Facts of a cluster, read with the rights of whoever asks. */
export class ClusterGround implements Ground {
  readonly notes: Notes;
  readonly config: HarbingerConfig;
  readonly installedIn: string;
  /** False where the configuration could not be read, so that the registries which Harbinger may ask are not known. */
  readonly configured: boolean;
  readonly policies: readonly Policy[];
  readonly #reader: ClusterReader;
  readonly #classes: NodeClasses | undefined;
  readonly #options: ClusterOptions;
  readonly #namespaces = new Map<string, Promise<NamespaceFacts>>();
  readonly #prewarms = new Map<string, Promise<Prewarm[]>>();

  private constructor(options: ClusterOptions, common: Common) {
    this.#options = options;
    this.#reader = common.reader;
    this.#classes = common.classes;
    this.notes = common.notes;
    this.policies = common.policies;
    this.config = common.config;
    this.installedIn = options.installedIn;
    this.configured = common.configured;
  }

  /** Reads what all Pods have in common. Throws where the API server cannot be asked at all. */
  static async read(options: ClusterOptions): Promise<ClusterGround> {
    const { client, installedIn } = options;
    const notes = new Notes();
    const reader = new ClusterReader(client, { notes, installedIn });
    const [read, policies] = await Promise.all([options.config ?? reader.config(), options.policies ?? reader.policies()]);
    const config = read ?? defaultConfig();
    const classes = await (options.nodes === undefined ? reader.nodeClasses() : options.nodes(config));
    return new ClusterGround(options, { reader, notes, config, configured: read !== undefined, policies, classes });
  }

  namespace(name: string): Promise<NamespaceFacts> {
    return remember(this.#namespaces, name, async () => {
      const assumes = `that it is labelled ${LABEL.accelerate}=enabled and says nothing else of Harbinger`;
      const raw = await this.#reader.get({ resource: RESOURCE.namespaces, name: { name }, assumes });
      const extra = this.#options.namespaceLabels;
      if (raw === undefined) return { name, labels: { [LABEL.accelerate]: 'enabled', ...extra }, annotations: {} };
      const own = Object.entries(stringMap(raw.metadata.annotations)).filter(([key]) => key.startsWith(`${GROUP}/`));
      return { name, labels: { ...stringMap(raw.metadata.labels), ...extra }, annotations: Object.fromEntries(own) };
    });
  }

  /** Rule: admission plugin RuntimeClass of the API server, which runs before webhooks. */
  async admitted({ pod }: PodQuestion): Promise<Json> {
    const spec = at(pod, 'spec');
    const name = string(spec['runtimeClassName']);
    if (name === undefined) return pod;
    const assumes = 'that it selects no nodes';
    const raw = await this.#reader.get({ resource: RESOURCE.runtimeClasses, name: { name }, assumes });
    const { nodeSelector, tolerations } = at(raw, 'scheduling');
    const selected = {
      nodeSelector: { ...stringMap(spec['nodeSelector']), ...stringMap(nodeSelector) },
      tolerations: [...(list(spec['tolerations']) ?? []), ...(list(tolerations) ?? [])],
    };
    return { ...pod, spec: { ...spec, ...selected } };
  }

  async records({ namespace, pod, gang }: PodQuestion): Promise<readonly GangRecord[]> {
    const keys = gangKeysOfPod(pod as unknown as KubeObject);
    if (keys.length === 0 && gang === undefined) return [];
    const found = await remember(this.#prewarms, namespace, () => {
      const assumes = 'that no gang was prewarmed';
      return this.#reader.list({ resource: RESOURCE.imagePrewarms, namespace, assumes }, prewarm);
    });
    // An object of a file has no uid yet; then the name has to do.
    const isNamed = (ref: Json): boolean =>
      gang?.uid === undefined &&
      (string(ref['apiGroup']) ?? '') === gang?.apiGroup &&
      ref['kind'] === gang.kind &&
      ref['name'] === gang.name;
    return found.filter(({ ref }) => gangKeys(ref).some((k) => keys.includes(k)) || isNamed(ref)).map((p) => p.record);
  }

  landing(pod: Json): Landing {
    const known = landingOf(constraintsOf(at(pod, 'spec')), this.#classes, this.#seenAt());
    return assume(known, this.#options.assumptions);
  }

  /** Secrets that the webhook would read as well, as far as both may. */
  async credentials({ pod, namespace }: PodQuestion): Promise<PodCredentials> {
    const view = viewPod(pod);
    const names = view === undefined ? [] : await this.#secretNames(pullSecretsOf(view), namespace);
    const found = await Promise.all(names.map(async (name) => ({ name, keyring: await this.#secret(namespace, name) })));
    const unread = found
      .filter(({ keyring }) => keyring === undefined)
      .map(({ name }) => `Secret ${namespace}/${name} was not read`);
    return {
      chainFor: chainOf(found.flatMap(({ keyring }) => keyring ?? [])),
      problem: unread.length === 0 ? undefined : unread.join('; '),
    };
  }

  quarantined(namespace: string, digest: string): string | undefined {
    return quarantineOf(this.#classes, { namespace, image: digest, now: this.#seenAt() })?.message;
  }

  /** A file of nodes is as old as it is: it is read as of the time at which it was written. */
  #seenAt(): number {
    return this.#options.nodes === undefined ? this.#options.now() : (this.#classes?.publishedAt ?? 0);
  }

  async #secret(namespace: string, name: string): Promise<Keyring | undefined> {
    const assumes = 'that Harbinger may not read it either';
    const raw = await this.#reader.get({ resource: RESOURCE.secrets, name: { namespace, name }, assumes });
    return raw === undefined ? undefined : parsePullSecret({ data: { ...stringMap(raw['data']) } });
  }

  async #secretNames(names: SecretNames, namespace: string): Promise<readonly string[]> {
    if ('secrets' in names) return names.secrets;
    const assumes = 'that it names no pull secrets';
    const name = { namespace, name: names.serviceAccount };
    const raw = await this.#reader.get({ resource: RESOURCE.serviceAccounts, name, assumes });
    return secretNames(raw?.['imagePullSecrets']);
  }
}

function prewarm(raw: Raw): Prewarm {
  const targets = records(at(raw, 'status')['targets']).map((t) => ({ images: records(t['images']) }));
  return {
    ref: at(raw, 'spec', 'gangRef'),
    record: readRecord(`${raw.metadata.namespace ?? ''}/${raw.metadata.name}`, targets),
  };
}

function remember<T>(known: Map<string, Promise<T>>, key: string, read: () => Promise<T>): Promise<T> {
  const found = known.get(key) ?? read();
  known.set(key, found);
  return found;
}
