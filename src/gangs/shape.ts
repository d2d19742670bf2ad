import type { GangRef } from '../api/kinds/image-prewarm.js';
import type { Json } from '../api/json.js';

/** Nodes that a queue assigned to one podSet, down to the lowest level of its topology. */
export interface NodeAssignment {
  /** Node labels from the outside in; the last one is the level at which `domains` are named. */
  levels: readonly string[];
  /** One value per level, and how many Pods go there. */
  domains: readonly { values: readonly string[]; count: number }[];
}

/** One podSet or task of a gang: Pods made from one template. */
export interface PodSet {
  name: string;
  /** Pods that the gang starts, without those that are done for good; the assigned count once quota is reserved. */
  count: number;
  /** Fewest Pods with which the queue may start it; absent where it starts whole or not at all. */
  minCount?: number;
  /** PodTemplateSpec as it stands in the queue's object. */
  template: Json;
  /** Flavors by resource name, known once quota is reserved. */
  flavors?: Readonly<Record<string, string>>;
  /** Known once a topology-aware queue has chosen. */
  assignment?: NodeAssignment;
}

/** How many Pods have to be there for a gang to run as a whole. */
export interface Headcount {
  /** That it was admitted with. */
  admitted: number;
  /** The same without those that are done for good by now. */
  left: number;
  /** It was taken its quota before: Pods that ran to their end may be of that time. */
  again: boolean;
}

export interface GangState {
  /** Epoch ms; absent while no quota is reserved. */
  reservedAt?: number;
  admitted: boolean;
  /** Epoch ms of admission. */
  admittedAt?: number;
  /** It is or was admitted: Pods may have run, also where an eviction sent it back to its queue since. */
  ran?: boolean;
  /** All of its Pods run, by what its source says or, in a view, by the Pods themselves. */
  podsReady: boolean;
  /** By which its Pods tell that, where its source may leave it open. */
  headcount?: Headcount;
  finished: boolean;
  evicted: boolean;
  /** Its queue looks at it, now or when its turn comes. */
  active: boolean;
  /** Why it does not though nobody deactivated it, in Kueue's words. */
  parked?: 'OnHold' | 'WaitingForReplacementPods';
  /** It waits, and its queue passes over it for now: others are given quota first, wherever it stands. */
  passedOver?: boolean;
  /** Topology is assigned only after all checks are Ready: waiting for nodes to be named would be a deadlock. */
  delayedTopology: boolean;
}

/** Who starts a gang: Kueue, or nobody that Harbinger knows (`generic`): such a gang is warmed and never held. */
export type GangSource = 'kueue' | 'generic';

/** A group of Pods that a queue starts together, in one shape for all queues. */
export interface Gang {
  source: GangSource;
  /** `namespace/name` of the queue's own object (the Workload); of a generic gang `Kind.group:namespace/name` of the job. */
  key: string;
  /** UID of that object. */
  uid: string;
  name: string;
  namespace: string;
  /** The job: stable over requeues, unlike the queue's object. */
  ref: GangRef;
  /** `apiVersion` of the job, needed to own objects by it. */
  refApiVersion: string;
  /** Whose annotations count as those of the job, where it is not `ref`: the Pods of a group, the set above a group of Pods. */
  owners?: readonly GangRef[];
  /** Key of the Workload that this one takes the place of, once it has quota: its Pods go on running and need no nodes anew. */
  replaces?: string;
  /** Local queue name; empty without a queue. */
  queue: string;
  /** Cluster-wide queue, known from the local queue or from the reservation. */
  clusterQueue?: string;
  priority: number;
  /** Epoch ms that orders the queue among equals: creation, or the last eviction that sends to the back. */
  queuedAt: number;
  podSets: PodSet[];
  state: GangState;
  /** Annotations of the queue's own object; what opts in is read from them. */
  annotations: Readonly<Record<string, string>>;
}
