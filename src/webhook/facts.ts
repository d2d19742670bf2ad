import type { Json } from '../api/json.js';
import { at, number, records, stringMap } from '../api/json.js';
import { GROUP, INSTALL } from '../api/names.js';
import { gangIndex, gangKeys, isNameKey } from '../gangs/identity.js';
import type { WatchPort } from '../kube/client.js';
import type { KubePort } from '../kube/port.js';
import type { RawObject } from '../kube/reflector.js';
import { Reflector } from '../kube/reflector.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { Landing } from '../placement/landing.js';
import { LandingMemo } from '../placement/landing.js';
import type { NodeClasses } from '../placement/node-classes.js';
import { parseNodeClasses } from '../placement/node-classes.js';
import { quarantineOf } from '../placement/quarantine.js';
import type { Policy, PolicyReading } from '../rewrite/policy-match.js';
import { inOrder, readPolicy } from '../rewrite/policy-match.js';
import type { GangRecord } from '../rewrite/record.js';
import { readRecord } from '../rewrite/record.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import type { Quarantine } from './answers.js';
import type { AdmissionMetrics } from './metrics.js';
import type { PolicyCounts } from './policy-tally.js';

export interface FactsOptions {
  client: KubePort & WatchPort;
  /** Where Harbinger is installed. */
  namespace: string;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  admission: AdmissionMetrics;
}

/** A policy as it can be evaluated, and what its status counts. */
interface PolicyFacts {
  reading: PolicyReading;
  counts: PolicyCounts;
}

interface PrewarmView {
  namespace: string;
  /** See gangKeys; empty for one that was made by hand. */
  gangKeys: string[];
  record: GangRecord;
}

/**
 * How long a replica counts as up to date without a word from the API server, which sends a bookmark a minute; and how long where
 * it knows that it cannot follow: that minute, and half a minute of trouble. An API server that is away has all replicas in
 * trouble at once, and when it returns Pods come at once: they shall find replicas that are ready.
 */
const SILENCE_MS = 150_000;
const TROUBLE_MS = 90_000;

/** Reconnects soon, for the same reason; three watches of a few replicas are no load. */
const PACE = { backoffMs: [200, 3_000] } as const;

/** How long a Pod may wait for a namespace that was made a moment ago and is not cached yet. */
const NAMESPACE_LOOKUP_MS = 300;

/**
 * What the webhook knows about the cluster, kept by watches, so that an admission asks nobody. A Pod in a namespace that is
 * younger than our last watch event costs one `get`; nothing else does.
 */
export class Facts {
  readonly #options: FactsOptions;
  readonly #policies: Reflector<PolicyFacts>;
  readonly #namespaces: Reflector<NamespaceFacts>;
  readonly #prewarms: Reflector<PrewarmView>;
  readonly #nodes: Reflector<NodeClasses | undefined>;
  readonly #landings = new LandingMemo();
  #classes: NodeClasses | undefined;
  #quarantines: ReadonlyMap<string, Quarantine> = new Map();
  #ordered: readonly Policy[] = [];

  constructor(options: FactsOptions) {
    this.#options = options;
    const { client, namespace, clock, log, metrics } = options;
    const shared = { client, clock, log, metrics, pace: PACE };
    this.#policies = new Reflector<PolicyFacts>({ ...shared, resource: RESOURCE.accelerationPolicies, project: policyFacts });
    this.#namespaces = new Reflector<NamespaceFacts>({ ...shared, resource: RESOURCE.namespaces, project: namespaceFacts });
    this.#prewarms = new Reflector<PrewarmView>({
      ...shared,
      resource: RESOURCE.imagePrewarms,
      project: prewarmView,
      indexes: { gang: (view) => view.gangKeys.map((key) => gangIndex(view.namespace, key)) },
    });
    this.#nodes = new Reflector<NodeClasses | undefined>({
      ...shared,
      resource: RESOURCE.configMaps,
      namespace,
      fieldSelector: `metadata.name=${INSTALL.nodeClasses}`,
      project: parseNodeClasses,
    });
    this.#policies.onChange((name, now, before) => this.#takePolicies(name, now, before));
    this.#nodes.onChange((_key, now) => this.#takeNodes(now));
  }

  start(): void {
    for (const [, reflector] of this.#all()) reflector.start();
    this.#nodes.start();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#all().map(([, r]) => r.stop()), this.#nodes.stop()]);
  }

  /** Why admissions cannot be judged yet, or undefined. Once synced it stays so: an older cache beats none. */
  get problem(): string | undefined {
    const waiting = this.#all().find(([, r]) => !r.hasSynced);
    // Node classes are waited for, but not needed: without them no format counts as runnable that plain nodes cannot run.
    if (waiting === undefined && !this.#nodes.hasSynced && this.#nodes.problem === undefined)
      return 'node classes: not listed yet';
    return waiting === undefined ? undefined : `${waiting[0]}: ${waiting[1].problem ?? 'not listed yet'}`;
  }

  /**
   * Why new admissions should go to other replicas, or undefined. One that no longer follows would go on to pin gangs to records
   * that have changed, while its neighbours pin the new ones. What still reaches it is answered from what it has.
   */
  get staleness(): string | undefined {
    const now = this.#options.clock.now();
    const stale = this.#all().find(([, r]) => now - r.lastContactMs > (r.problem === undefined ? SILENCE_MS : TROUBLE_MS));
    if (this.problem !== undefined || stale === undefined) return this.problem;
    const [name, { lastContactMs, problem }] = stale;
    const silence = `nothing heard from the API server for ${Math.round((now - lastContactMs) / 1000)} s`;
    return `${name}: ${silence}${problem === undefined ? '' : ` (${problem})`}`;
  }

  /** Valid policies in the order in which they are asked. */
  get policies(): readonly Policy[] {
    return this.#ordered;
  }

  /** What the status of a policy counts; undefined where there is no such policy. */
  counts(policy: string): PolicyCounts | undefined {
    return this.#policies.get(policy)?.counts;
  }

  /** Where a Pod (raw) can land. */
  landing(pod: Json): Landing {
    return this.#landings.of(at(pod, 'spec'), this.#classes, this.#options.clock.now());
  }

  /** Variants that Pods of a namespace are not given, or undefined where there are none. */
  quarantine(namespace: string): Quarantine | undefined {
    return this.#quarantines.get(namespace);
  }

  /** Undefined where the namespace does not exist or could not be read in time: at most `ms`, what is left of an admission's budget. */
  async namespace(name: string, ms = NAMESPACE_LOOKUP_MS): Promise<NamespaceFacts | undefined> {
    const cached = this.#namespaces.get(name);
    if (cached !== undefined) return cached;
    try {
      return namespaceFacts(
        await this.#options.client.get<RawObject>(
          RESOURCE.namespaces,
          { name },
          { timeoutMs: Math.min(ms, NAMESPACE_LOOKUP_MS) },
        ),
      );
    } catch (err) {
      this.#options.log.warn({ err, namespace: name }, 'namespace not known, its Pods are left alone');
      return undefined;
    }
  }

  /** Records of the gangs with these keys, only from the Pod's own namespace: nobody is pinned by another tenant's object. */
  records(namespace: string, gangKeys: readonly string[]): GangRecord[] {
    const found = gangKeys.flatMap((key) => {
      const views = this.#prewarms.byIndex('gang', gangIndex(namespace, key));
      return isNameKey(key) && views.length > 1 ? [] : views;
    });
    return [...new Set(found.map((view) => view.record))];
  }

  #all(): [string, Pick<Reflector<unknown>, 'start' | 'stop' | 'hasSynced' | 'problem' | 'lastContactMs'>][] {
    return [
      ['policies', this.#policies],
      ['namespaces', this.#namespaces],
      ['prewarms', this.#prewarms],
    ];
  }

  #takePolicies(name: string, now: PolicyFacts | undefined, before: PolicyFacts | undefined): void {
    const counted = (f: PolicyFacts | undefined): string => `${f?.counts.accelerated ?? 0}/${f?.counts.left ?? 0}`;
    if (now !== undefined)
      now.counts.countedAt = counted(now) === counted(before) ? (before?.counts.countedAt ?? 0) : this.#options.clock.now();
    // What is remembered of a list of policies goes with it, and each replica writes counts into their status once a minute.
    if (now !== undefined && before !== undefined && sameRules(now.reading, before.reading)) return;
    const readings = this.#policies.list().map((p) => p.reading);
    this.#ordered = inOrder(readings.flatMap((r) => (r.ok ? [r.policy] : [])));
    this.#options.admission.badPolicies(readings.filter((r) => !r.ok).length);
    const [problem, known] = [now, before].map((f) => (f?.reading.ok === false ? f.reading.problem : undefined));
    if (problem !== undefined && problem !== known) this.#options.log.error({ problem }, 'policy ignored');
    if (problem === undefined && known !== undefined)
      this.#options.log.info({ policy: name, problem: known }, 'policy no longer ignored');
  }

  #takeNodes(now: NodeClasses | undefined): void {
    this.#classes = now;
    const { clock } = this.#options;
    const namespaces = new Set(now?.quarantined.map((q) => q.namespace));
    this.#quarantines = new Map(
      [...namespaces].map((namespace) => [
        namespace,
        {
          key: `${namespace} ${now?.publishedAt ?? ''}`,
          messageOf: (image) => quarantineOf(now, { namespace, image, now: clock.now() })?.message,
        },
      ]),
    );
  }
}

function policyFacts(raw: RawObject): PolicyFacts {
  const decisions = at(raw, 'status', 'decisions');
  const counts = {
    resourceVersion: raw.metadata.resourceVersion ?? '',
    accelerated: number(decisions['accelerated']) ?? 0,
    left: number(decisions['left']) ?? 0,
    countedAt: 0,
  };
  return { reading: readPolicy(raw), counts };
}

/** Specs are compared too: a policy that was deleted and made again while nobody watched begins with the same generation. */
function sameRules(now: PolicyReading, before: PolicyReading): boolean {
  if (!now.ok || !before.ok || now.policy.generation !== before.policy.generation) return false;
  return JSON.stringify(now.policy.spec) === JSON.stringify(before.policy.spec);
}

function namespaceFacts(raw: RawObject): NamespaceFacts {
  const annotations = Object.entries(stringMap(raw.metadata.annotations)).filter(([key]) => key.startsWith(`${GROUP}/`));
  return { name: raw.metadata.name, labels: stringMap(raw.metadata.labels), annotations: Object.fromEntries(annotations) };
}

function prewarmView(raw: RawObject): PrewarmView {
  const namespace = raw.metadata.namespace ?? '';
  const targets = records(at(raw, 'status')['targets']).map((t) => ({ images: records(t['images']) }));
  return {
    namespace,
    gangKeys: gangKeys(at(raw, 'spec', 'gangRef')),
    record: readRecord(`${namespace}/${raw.metadata.name}`, targets),
  };
}
