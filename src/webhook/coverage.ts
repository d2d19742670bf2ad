import { at } from '../api/json.js';
import { LABEL } from '../api/names.js';
import { pullerNodes, warmingOf } from '../api/puller-spec.js';
import type { Settings } from '../config/follow.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { WatchPort } from '../kube/client.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';

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

/** Which nodes the pullers of an image cover. Nothing is followed before `nodes.steer` asks for it: in most installations it never does. */
export class Coverage {
  readonly #sets: Reflector<Covered>;

  constructor({ client, namespace, clock, log, metrics }: CoverageOptions) {
    this.#sets = new Reflector<Covered>({
      client,
      resource: RESOURCE.daemonSets,
      namespace,
      labelSelector: LABEL.puller,
      project: (raw) => {
        const spec = at(raw, 'spec', 'template', 'spec');
        const leaving = raw.metadata.deletionTimestamp !== undefined;
        return { image: warmingOf(spec).image ?? '', nodes: leaving ? [] : pullerNodes(spec) };
      },
      indexes: { image: ({ image }) => [image] },
      clock,
      log,
      metrics,
    });
  }

  /** Follows the configuration from now on. Once followed, sets are followed for good: switching off again costs nothing more. */
  follow(settings: Pick<Settings, 'current' | 'onChange'>): void {
    const look = ({ nodes }: Pick<HarbingerConfig, 'nodes'>): void => {
      if (nodes.steer !== 'Off') this.#sets.start();
    };
    look(settings.current);
    settings.onChange(look);
  }

  /** Nodes that hold all of the images or are about to; none while that is not known. */
  nodesWith(images: readonly string[]): string[] {
    const [first = [], ...others] = images.map((image) => this.#sets.byIndex('image', image).flatMap((set) => set.nodes));
    const rest = others.map((nodes) => new Set(nodes));
    return [...new Set(first)].filter((node) => rest.every((nodes) => nodes.has(node)));
  }

  async stop(): Promise<void> {
    await this.#sets.stop();
  }
}
