import { at, records, string } from '../../../../src/api/json.js';
import { parseReference } from '../../../../src/images/reference.js';
import { findRecorded, readRecord } from '../../../../src/rewrite/record.js';
import type { Raw } from '../../invariants/history.js';
import { gangUidOf, holds } from '../../invariants/read.js';
import type { World } from './world.js';
import { RESOURCE, actor, ownedBy, remove, withConditions, writeStatus } from './world.js';

/** How old the copy of the records may be from which the webhook gives members their images, ms. */
export const COPY_LAG_MS = 2_000;

/** What the webhook has seen of the ImagePrewarms: changes come in their order, each a while after it was made. */
class Records {
  readonly #seen = new Map<string, Raw>();

  constructor({ store, timeline }: World) {
    let told = 0;
    store.onChange(({ type, object, version }) => {
      if (object.kind !== 'ImagePrewarm') return;
      // By the version, so that one more change elsewhere leaves the lags of others as they are.
      told = Math.max(told, timeline.now + ((version * 7_919) % COPY_LAG_MS));
      timeline.after(told - timeline.now, () => {
        if (type === 'DELETED') this.#seen.delete(object.metadata.uid ?? '');
        else this.#seen.set(object.metadata.uid ?? '', object);
      });
    });
  }

  of(gangUid: string): Raw[] {
    return [...this.#seen.values()].filter((p) => gangUidOf(p) === gangUid);
  }
}

/** The Job controller, and the webhook where it makes Pods: members of a gang get what is recorded for it. */
export function jobs(world: World): void {
  const seen = new Records(world);
  actor(world, { watches: [RESOURCE.jobs, RESOURCE.pods], reactMs: [50, 500], everyMs: 30_000 }, () => {
    for (const job of world.store.list(RESOURCE.jobs)) tend(world, job, seen);
  });
}

function tend(world: World, job: Raw, seen: Records): void {
  if (job.metadata.deletionTimestamp !== undefined || holds(job, 'Complete')) return;
  const pods = world.store.list(RESOURCE.pods).filter((p) => ownedBy(p, job.metadata.uid));
  const { suspend, parallelism } = at(job, 'spec') as { suspend?: boolean; parallelism?: number };
  const wanted = parallelism ?? 1;
  const alive = pods.filter((p) => p.metadata.deletionTimestamp === undefined);
  if (suspend === true) {
    for (const pod of alive) if (phaseOf(pod) !== 'Succeeded') remove(world, RESOURCE.pods, pod);
    return;
  }
  const done = alive.filter((p) => phaseOf(p) === 'Succeeded').length;
  if (done >= wanted) {
    const conditions = withConditions(world, job, { type: 'Complete', status: 'True', reason: 'CompletionsReached' });
    writeStatus(world, RESOURCE.jobs, job, { conditions });
    return;
  }
  for (let missing = wanted - pods.length; missing > 0; missing--) world.store.create(RESOURCE.pods, podOf(job, seen));
}

const phaseOf = (pod: Raw): unknown => at(pod, 'status')['phase'];

function podOf(job: Raw, seen: Records): Raw {
  const { name, namespace = '', uid = '' } = job.metadata;
  const template = at(job, 'spec', 'template');
  const containers = records(at(template, 'spec')['containers']).map((c) => ({
    ...c,
    image: given(seen.of(uid), string(c['image']) ?? ''),
  }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      generateName: `${name}-`,
      namespace,
      annotations: at(template, 'metadata')['annotations'],
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: { ...at(template, 'spec'), containers },
  } as unknown as Raw;
}

/** What the webhook makes of an image: it reads the record of the Pod's gang. */
function given(prewarms: readonly Raw[], image: string): string {
  const read = prewarms.map((p) => readRecord(p.metadata.name, records(at(p, 'status')['targets']) as { images?: [] }[]));
  const parsed = parseReference(image);
  return parsed.ok ? (findRecorded(read, parsed.reference)?.image.resolved ?? image) : image;
}
