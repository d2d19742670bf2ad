import { ApiError } from '../../cluster/client.js';
import type { Draft, Raw } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';

type Spec = Record<string, unknown>;

/** What the API server and the scheduler made of one Pod. */
export interface Verdict {
  /** The Pod that was stored, with what admission added; absent where it was refused. */
  stored?: Raw;
  refused?: string;
  /** Nodes to which the Pod was bound when it was pinned to them one by one. */
  accepted: ReadonlySet<string>;
  /** Where it went when it could choose; absent where it could not. */
  chosen?: string;
}

const NAMESPACE = 'trial';

/** Asks the real scheduler about a Pod: once as it is, and once for each node, pinned to it. Nothing stays behind. */
export async function ask(cluster: Cluster, spec: Spec, names: readonly string[]): Promise<Verdict> {
  const { client } = cluster;
  const trial = (name: string, pinned: Spec): Draft => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE },
    spec: pinned,
  });
  const outcome = async (): Promise<Map<string, string | undefined>> => {
    const pods = await until(
      'the scheduler to have looked at all Pods',
      async () => {
        const all = await client.list('v1/Pod', { namespace: NAMESPACE });
        const open = all.filter((p) => p['spec'].nodeName === undefined && !isUnschedulable(p));
        return open.length === 0 ? all : notYet(open.map((p) => [p.metadata.name, p['status']]));
      },
      { everyMs: 30 },
    );
    return new Map(pods.map((p) => [p.metadata.name, p['spec'].nodeName as string | undefined]));
  };
  let stored: Raw;
  try {
    stored = await client.create(trial('free', spec));
  } catch (error) {
    if (error instanceof ApiError) return { refused: error.message, accepted: new Set() };
    throw error;
  }
  const chosen = (await outcome()).get('free');
  await clear(cluster);
  await Promise.all(names.map((node) => client.create(trial(`on-${node}`, pin(spec, node)))));
  const bound = await outcome();
  await clear(cluster);
  const accepted = new Set(names.filter((node) => bound.get(`on-${node}`) === node));
  return { stored, accepted, ...(chosen === undefined ? {} : { chosen }) };
}

async function clear({ client }: Cluster): Promise<void> {
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0 };
  await client.request('DELETE', `/api/v1/namespaces/${NAMESPACE}/pods`, body);
}

function isUnschedulable(pod: Raw): boolean {
  const conditions = (pod['status']?.conditions ?? []) as { type: string; reason?: string }[];
  return conditions.some((c) => c.type === 'PodScheduled' && c.reason === 'Unschedulable');
}

/** The same Pod for one node only: a field in every term, or a term of its own. A term without requirements has to stay so. */
function pin(spec: Spec, node: string): Spec {
  const field = { key: 'metadata.name', operator: 'In', values: [node] };
  const affinity = spec['affinity'] as { nodeAffinity?: Record<string, { nodeSelectorTerms: Term[] }> } | undefined;
  const terms = affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms;
  const pinned = (terms ?? [undefined]).map((t) =>
    t === undefined || Object.values(t).some((list) => list.length > 0)
      ? { ...t, matchFields: [...(t?.matchFields ?? []), field] }
      : t,
  );
  return { ...spec, affinity: { ...affinity, nodeAffinity: { [REQUIRED]: { nodeSelectorTerms: pinned } } } };
}

const REQUIRED = 'requiredDuringSchedulingIgnoredDuringExecution';
interface Term {
  matchExpressions?: object[];
  matchFields?: object[];
}
