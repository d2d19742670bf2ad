import type { ImagePrewarm } from '../../api/kinds/index.js';
import { API_VERSION } from '../../api/names.js';
import type { OwnerReference } from '../../api/object.js';
import type { PlannedPrewarm } from '../../preheat/planner.js';

interface View {
  prewarm: ImagePrewarm;
  planned: Pick<PlannedPrewarm, 'keep' | 'targets'>;
}

const SWITCHED_OFF =
  'only the pull secrets of the gang may read this image, and pullers in namespaces of tenants are switched off; set pullers.workloadNamespaces to WhereAllowed, or give Harbinger a credential for the registry';

/** By hash, the ImagePrewarms that want a puller of a tenant: its DaemonSet goes with the last of them. */
export function ownersOf(views: readonly View[]): Map<string, OwnerReference[]> {
  const owners = new Map<string, OwnerReference[]>();
  for (const { prewarm, planned } of views) {
    if (!planned.keep) continue;
    for (const hash of tenantHashes(planned)) owners.set(hash, [...(owners.get(hash) ?? []), referenceTo(prewarm)]);
  }
  return owners;
}

/** Why pullers of tenants are not begun where they are switched off, by hash, beside what is refused already. */
export function refusedTenants(
  views: readonly View[],
  mode: 'Off' | 'WhereAllowed',
  refused: ReadonlyMap<string, string> = new Map(),
): ReadonlyMap<string, string> {
  if (mode === 'WhereAllowed') return refused;
  const hashes = views.flatMap(({ planned }) => [...tenantHashes(planned)]);
  return hashes.length === 0 ? refused : new Map([...refused, ...hashes.map((h) => [h, SWITCHED_OFF] as const)]);
}

function tenantHashes({ targets }: View['planned']): Set<string> {
  return new Set(targets.flatMap((t) => t.pullers.filter((p) => p.tenant !== undefined).map((p) => p.hash)));
}

/** No controller, since there may be several, and it blocks nobody's deletion. */
function referenceTo({ metadata }: ImagePrewarm): OwnerReference {
  return { apiVersion: API_VERSION, kind: 'ImagePrewarm', name: metadata.name, uid: metadata.uid ?? '' };
}
