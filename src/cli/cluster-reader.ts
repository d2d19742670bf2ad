import { at, string } from '../api/json.js';
import type { Json } from '../api/json.js';
import { INSTALL } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import { parseConfig } from '../config/load.js';
import type { HarbingerConfig } from '../config/schema.js';
import { isForbidden, isNotFound } from '../kube/errors.js';
import type { KubePort, ObjectName } from '../kube/port.js';
import { RESOURCE } from '../kube/resources.js';
import type { Resource } from '../kube/resources.js';
import { parseNodeClasses } from '../placement/node-classes.js';
import type { NodeClasses } from '../placement/node-classes.js';
import { inOrder, readPolicy } from '../rewrite/policy-match.js';
import type { Policy } from '../rewrite/policy-match.js';
import type { Notes } from './ground.js';

export type Raw = KubeObject & Json;

/** Reads a cluster with the rights of whoever asks; what these do not reach is told and assumed. */
export class ClusterReader {
  readonly client: Pick<KubePort, 'get' | 'list'>;
  readonly #notes: Notes;
  readonly #installedIn: string;

  constructor(client: Pick<KubePort, 'get' | 'list'>, { notes, installedIn }: { notes: Notes; installedIn: string }) {
    this.client = client;
    this.#notes = notes;
    this.#installedIn = installedIn;
  }

  /** The object, or undefined and a note. */
  async get({ resource, name, assumes }: { resource: Resource; name: ObjectName; assumes: string }): Promise<Raw | undefined> {
    const what = `${resource.kind} ${name.namespace === undefined ? '' : `${name.namespace}/`}${name.name}`;
    let found: Raw | undefined;
    await this.#tolerate({ what, assumes }, async () => {
      found = await this.client.get<Raw>(resource, name);
    });
    return found;
  }

  /** All objects, kept as `project` makes them; those that could be read before something went wrong, and a note. */
  async list<T>(
    { resource, namespace, assumes }: { resource: Resource; namespace?: string; assumes: string },
    project: (raw: Raw) => T,
  ): Promise<T[]> {
    const found: T[] = [];
    const what = `${resource.plural}${namespace === undefined ? '' : ` of namespace ${namespace}`}`;
    await this.#tolerate({ what, assumes }, async () => {
      for await (const page of this.client.list<Raw>(resource, namespace === undefined ? {} : { namespace }))
        found.push(...page.map(project));
    });
    return found;
  }

  /** Configuration of the processes in the cluster. Throws ConfigError where it is one that no process would take. */
  async config(): Promise<HarbingerConfig | undefined> {
    const name = { namespace: this.#installedIn, name: INSTALL.configMap };
    const assumes = 'defaults, and that every registry may be asked';
    const raw = await this.get({ resource: RESOURCE.configMaps, name, assumes });
    const text = string(at(raw, 'data')[CONFIG_KEY]);
    const origin = `ConfigMap ${name.namespace}/${name.name}`;
    if (raw !== undefined && text === undefined) this.#notes.notRead(`key ${CONFIG_KEY} of ${origin}`, 'absent', assumes);
    return text === undefined ? undefined : parseConfig(text, origin);
  }

  /** Policies in the order in which they are asked. One that webhooks ignore becomes a note. */
  async policies(): Promise<Policy[]> {
    const resource = RESOURCE.accelerationPolicies;
    const readings = await this.list({ resource, assumes: 'that there are none' }, readPolicy);
    for (const reading of readings) if (!reading.ok) this.#notes.add(reading.problem);
    return inOrder(readings.flatMap((reading) => (reading.ok ? [reading.policy] : [])));
  }

  async nodeClasses(): Promise<NodeClasses | undefined> {
    const name = { namespace: this.#installedIn, name: INSTALL.nodeClasses };
    const assumes = 'that nothing is known of nodes, as webhooks do that find it absent';
    const raw = await this.get({ resource: RESOURCE.configMaps, name, assumes });
    return raw === undefined ? undefined : parseNodeClasses(raw);
  }

  /** Anything else than absence and a lack of rights is an error: a server that cannot be asked answers nothing that follows. */
  async #tolerate({ what, assumes }: { what: string; assumes: string }, read: () => Promise<void>): Promise<void> {
    try {
      await read();
    } catch (error) {
      if (isNotFound(error)) this.#notes.notRead(what, 'absent', assumes);
      else if (isForbidden(error)) this.#notes.notRead(what, 'you may not read it', assumes);
      else throw error;
    }
  }
}

const CONFIG_KEY = 'config.yaml';
