import type { HarbingerConfig } from '../../config/schema.js';
import { isNotFound } from '../../kube/errors.js';
import type { KubePort } from '../../kube/port.js';
import { RESOURCE } from '../../kube/resources.js';
import type { Result } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Metrics } from '../../observe/metrics.js';
import { INSTALL } from '../../api/names.js';
import { resolveCapabilities, selectorOf } from '../../placement/capability.js';
import { classify } from '../../placement/classify.js';
import type { NodeClasses } from '../../placement/node-classes.js';
import { encodeNodeClasses, parseNodeClasses } from '../../placement/node-classes.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import type { VariantFailures } from '../images/variant-failures.js';

export interface NodeClassesOptions {
  client: Pick<KubePort, 'get'>;
  caches: Pick<Caches, 'nodes' | 'runtimeClasses' | 'flavors'>;
  actuator: Pick<Actuator, 'perform'>;
  failures: VariantFailures;
  config: () => HarbingerConfig;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  namespace: string;
}

/** Pause between heartbeats, ms; webhooks believe the object for five of them. */
const HEARTBEAT_MS = 60_000;
/** How often it is looked whether the sign of a node has grown too old, ms. */
const LOOK_MS = 10_000;
/** How long a picture of the nodes is used again, ms: a gang asks for each of its images. */
const REUSE_MS = 1_000;

/** Works out the classes of nodes and publishes them: when they change, and as a heartbeat. There is one key. */
export class NodeClassesReconciler {
  readonly #options: NodeClassesOptions;
  readonly #count;
  readonly #publishedAt;
  readonly #quarantined;
  #view: NodeClasses | undefined;
  #published: { text: string; at: number } | undefined;
  #adopted = false;
  #notes = '';

  constructor(options: NodeClassesOptions) {
    this.#options = options;
    const { metrics } = options;
    this.#count = metrics.gauge('harbinger_node_classes', 'Classes into which the nodes of the cluster fall.');
    this.#quarantined = metrics.gauge(
      'harbinger_variants_quarantined',
      'Variants that Pods are not given because nodes failed to pull them.',
    );
    this.#publishedAt = metrics.gauge(
      'harbinger_node_classes_published_timestamp_seconds',
      'When this replica last published the classes of nodes; 0 before it leads.',
    );
  }

  /** The nodes as they are known now; undefined while too little is known to say anything. */
  view(): NodeClasses | undefined {
    const { caches, config, failures, clock } = this.#options;
    const now = clock.now();
    const age = now - (this.#view?.publishedAt ?? Number.NEGATIVE_INFINITY);
    if (age >= 0 && age < REUSE_MS) return this.#view;
    const {
      capabilities: entries,
      nodes: { lastingTaints },
    } = config();
    // A RuntimeClass that is not known yet would make its nodes look incapable, and a record made then stays.
    const known =
      caches.nodes.hasSynced && (caches.runtimeClasses.hasSynced || entries.every((e) => e.runtimeClass === undefined));
    if (!known) return undefined;
    const { capabilities, notes } = resolveCapabilities(entries, (name) => caches.runtimeClasses.get(name));
    const selectors = [
      ...capabilities.map((c) => c.nodeSelector),
      ...caches.runtimeClasses.list().map((r) => r.nodeSelector ?? {}),
      ...caches.flavors.list().map((f) => f.nodeLabels),
    ];
    const keys = selectors.flatMap((s) => Object.keys(s).sort());
    const classes = classify({ nodes: caches.nodes.list(), capabilities, keys, lastingTaints, now });
    this.#view = {
      publishedAt: now,
      ...classes,
      capabilities: capabilities.map(selectorOf),
      quarantined: failures.list(),
      notes: [...notes, ...classes.notes],
    };
    return this.#view;
  }

  async reconcile(): Promise<Result> {
    const { actuator, clock, config, namespace } = this.#options;
    // With the kill switch on nobody asks; what was published grows old, and that is known.
    if (config().mode === 'Off') return { after: HEARTBEAT_MS };
    await this.#adopt();
    this.#view = undefined;
    const view = this.view();
    if (view === undefined) return { after: REUSE_MS };
    this.#tell(view);
    const text = JSON.stringify({ ...view, publishedAt: 0, quarantined: view.quarantined.map((q) => ({ ...q, until: 0 })) });
    const age = clock.now() - (this.#published?.at ?? Number.NEGATIVE_INFINITY);
    if (this.#published?.text === text && age >= 0 && age < HEARTBEAT_MS) return { after: Math.min(LOOK_MS, HEARTBEAT_MS - age) };
    await actuator.perform({ type: 'publish-node-classes', namespace, data: encodeNodeClasses(view) });
    this.#published = { text, at: view.publishedAt };
    this.#publishedAt.set(view.publishedAt / 1000);
    return { after: LOOK_MS };
  }

  /** A quarantine outlives the leader that imposed it. */
  async #adopt(): Promise<void> {
    if (this.#adopted) return;
    const { client, failures, namespace } = this.#options;
    try {
      const before = await client.get(RESOURCE.configMaps, { namespace, name: INSTALL.nodeClasses });
      failures.adopt(parseNodeClasses(before)?.quarantined ?? []);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    this.#adopted = true;
  }

  #tell({ classes, quarantined, notes }: NodeClasses): void {
    this.#count.set(classes.length);
    this.#quarantined.set(quarantined.length);
    const text = notes.join('; ');
    if (text !== this.#notes && text !== '') this.#options.log.warn({ notes }, 'the picture of the nodes has gaps');
    this.#notes = text;
  }
}
