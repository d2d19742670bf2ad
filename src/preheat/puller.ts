import { createHash } from 'node:crypto';
import { present } from '../api/json.js';
import { parseReference } from '../images/reference.js';

/** Whose pull secrets pull: those of Pods in one namespace, for images that nothing else may read. */
export interface PullerTenant {
  namespace: string;
  /** Names of secrets in that namespace, in the order in which a kubelet tries them. */
  secrets: readonly string[];
  /** Counts only where no secrets are named: Pods that name some get none of their service account's. Absent: `default`. */
  serviceAccountName?: string | undefined;
}

/** What one DaemonSet of pullers warms: one image by digest, unpacked by the snapshotter of one runtime class. */
export interface Puller {
  /** Identity: equal for equal (image, runtimeClassName, tenant), so that gangs and tenants share pulls. */
  hash: string;
  /** `registry/repository@digest`. */
  image: string;
  runtimeClassName?: string;
  /** Absent: the puller stands in Harbinger's own namespace and serves every gang. */
  tenant?: PullerTenant;
  /** Host that the per-registry limit counts. */
  registry: string;
  /** Compressed bytes of one platform; 0 where unknown. */
  bytes: number;
}

/**
 * The puller of an image.
 * @param image `registry/repository@digest`; anything else is refused with undefined: bytes that are not pinned prove nothing
 */
export function pullerOf(
  image: string,
  options: { runtimeClassName?: string | undefined; bytes?: number | undefined; tenant?: PullerTenant | undefined } = {},
): Puller | undefined {
  const parsed = parseReference(image);
  if (!parsed.ok || parsed.reference.digest === undefined) return undefined;
  const { runtimeClassName = '', bytes = 0 } = options;
  const tenant = options.tenant === undefined ? undefined : sameRights(options.tenant);
  const whose = tenant === undefined ? [] : [tenant.namespace, tenant.serviceAccountName ?? '', ...tenant.secrets];
  const hash = createHash('sha256')
    .update([image, runtimeClassName, ...whose].join('\n'))
    .digest('hex')
    .slice(0, 16);
  return present<Puller>({
    hash,
    image,
    registry: parsed.reference.registry,
    bytes,
    runtimeClassName: runtimeClassName || undefined,
    tenant,
  });
}

/** One spelling for tenants that may read the same, so that they share pulls. */
function sameRights({ namespace, secrets, serviceAccountName }: PullerTenant): PullerTenant {
  const byAccount = secrets.length === 0 && serviceAccountName !== undefined && serviceAccountName !== 'default';
  return { namespace, secrets, ...(byAccount ? { serviceAccountName } : {}) };
}
