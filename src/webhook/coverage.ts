import { LABEL } from '../api/names.js';
import type { WatchPort } from '../kube/client.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { projectPullerSet } from '../preheat/backends/daemonset/project.js';

interface Covered {
  image: string;
  nodes: readonly string[];
}

export interface CoverageOptions {
  client: WatchPort;
  /** Where Harbinger is installed; pullers in namespaces of tenants are not looked at. */
  namespace: string;
  clock: Clock;
  log: Log;
  metrics: Metrics;
}

/** Which nodes the pullers of an image cover. Nothing is followed before somebody asks: most installations never do. */
export class Coverage {
  readonly #sets: Reflector<Covered>;

  constructor({ client, namespace, clock, log, metrics }: CoverageOptions) {
    this.#sets = new Reflector<Covered>({
      client,
      resource: RESOURCE.daemonSets,
      namespace,
      labelSelector: LABEL.puller,
      project: (raw) => {
        const { image, nodes, deleting } = projectPullerSet(raw);
        return { image, nodes: deleting ? [] : nodes };
      },
      indexes: { image: ({ image }) => [image] },
      clock,
      log,
      metrics,
    });
  }

  /** Nodes that hold all of the images or are about to; none while that is not known. */
  nodesWith(images: readonly string[]): string[] {
    this.#sets.start();
    const [first = [], ...others] = images.map((image) => this.#sets.byIndex('image', image).flatMap((set) => set.nodes));
    const rest = others.map((nodes) => new Set(nodes));
    return [...new Set(first)].filter((node) => rest.every((nodes) => nodes.has(node)));
  }

  async stop(): Promise<void> {
    await this.#sets.stop();
  }
}
