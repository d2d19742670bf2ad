import { at } from '../api/json.js';
import type { Json } from '../api/json.js';
import { LABEL } from '../api/names.js';
import type { HarbingerConfig } from '../config/schema.js';
import { constraintsOf } from '../placement/constraints.js';
import { landingOf } from '../placement/landing.js';
import type { Landing } from '../placement/landing.js';
import type { NodeClasses } from '../placement/node-classes.js';
import type { Policy } from '../rewrite/policy-match.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import { Notes } from './ground.js';
import type { Ground, PodCredentials } from './ground.js';
import { assume } from './landing.js';
import type { Assumptions } from './landing.js';

export interface OfflineFacts {
  config: HarbingerConfig;
  /** Namespace that Harbinger is installed in. */
  installedIn: string;
  policies: readonly Policy[];
  /** Labels of every namespace. */
  namespaceLabels: Readonly<Record<string, string>>;
  assumptions: Assumptions;
  /** Nodes of a file. */
  classes?: NodeClasses | undefined;
}

/** Facts from flags and files. Every namespace counts as opted in unless its labels say otherwise. */
export class OfflineGround implements Ground {
  readonly notes = new Notes();
  readonly #facts: OfflineFacts;
  readonly #namespaces = new Map<string, NamespaceFacts>();

  constructor(facts: OfflineFacts) {
    this.#facts = facts;
  }

  get config(): HarbingerConfig {
    return this.#facts.config;
  }

  get installedIn(): string {
    return this.#facts.installedIn;
  }

  get policies(): readonly Policy[] {
    return this.#facts.policies;
  }

  /** A Namespace among the manifests; labels of the command line go on top. */
  learn(name: string, facts: Omit<NamespaceFacts, 'name'>): void {
    const labels = { [LABEL.accelerate]: 'enabled', ...facts.labels, ...this.#facts.namespaceLabels };
    this.#namespaces.set(name, { name, labels, annotations: facts.annotations });
  }

  namespace(name: string): Promise<NamespaceFacts> {
    if (!this.#namespaces.has(name)) this.learn(name, { labels: {}, annotations: {} });
    return Promise.resolve(this.#namespaces.get(name) ?? { name, labels: {}, annotations: {} });
  }

  admitted({ pod }: { pod: Json }): Promise<Json> {
    return Promise.resolve(pod);
  }

  records(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  /** A file of nodes is as old as it is: it is read as it was when it was written. */
  landing(pod: Json): Landing {
    const { classes, assumptions } = this.#facts;
    const known = classes === undefined ? undefined : landingOf(constraintsOf(at(pod, 'spec')), classes, classes.publishedAt);
    return assume(known, assumptions);
  }

  credentials(): Promise<PodCredentials> {
    return Promise.resolve({ chainFor: () => [undefined] });
  }

  quarantined(): undefined {
    return undefined;
  }
}
