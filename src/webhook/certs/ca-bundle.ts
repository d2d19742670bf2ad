import type { X509Certificate } from 'node:crypto';
import { at, records, string } from '../../api/json.js';
import type { PatchOp } from '../../kube/port.js';
import type { RawObject } from '../../kube/reflector.js';
import { selectedBy } from './selector.js';
import type { Selected } from './selector.js';
import { notAfterOf, readBundle } from './x509.js';

/** The part of a MutatingWebhookConfiguration that this process looks after. */
export interface WebhookView {
  name: string;
  webhooks: readonly { name: string; caBundle: string; selected: Selected }[];
}

/** Authorities that are kept at most; older ones go first. */
const MAX_AUTHORITIES = 4;

export function webhookView(raw: RawObject): WebhookView {
  const webhooks = records(raw['webhooks']).map((w) => ({
    name: string(w['name']) ?? '',
    caBundle: string(at(w, 'clientConfig')['caBundle']) ?? '',
    selected: selectedBy(w),
  }));
  return { name: raw.metadata.name, webhooks };
}

/**
 * The bundle (base64 of PEM) that a webhook should have: our authorities, and those of ours that stand there and have not expired.
 * Replicas that know different Secrets for a moment thus add to each other's bundle and never take away. The order depends on
 * the certificates alone, so that two replicas always agree. To distrust an authority at once, delete it from the Secret and empty
 * the field.
 */
export function wantedBundle(present: string, trusted: readonly X509Certificate[], now: number): string {
  const standing = readBundle(Buffer.from(present, 'base64').toString()).filter(
    (c) => c.ca && /(^|\n)CN=harbinger-ca-/.test(c.subject),
  );
  const byFingerprint = new Map([...standing, ...trusted].filter((c) => now < notAfterOf(c)).map((c) => [c.fingerprint256, c]));
  const newestFirst = [...byFingerprint.values()].sort(
    (a, b) => Date.parse(b.validFrom) - Date.parse(a.validFrom) || (a.fingerprint256 < b.fingerprint256 ? -1 : 1),
  );
  return Buffer.from(
    newestFirst
      .slice(0, MAX_AUTHORITIES)
      .map((c) => c.toString())
      .join(''),
  ).toString('base64');
}

/**
 * The patch that brings the bundles in step; empty when they are. It writes `clientConfig.caBundle` and nothing else; the tests on
 * names keep an index from hitting another entry after an edit of the list.
 */
export function bundlePatch(view: WebhookView, trusted: readonly X509Certificate[], now: number): PatchOp[] {
  return view.webhooks.flatMap(({ name, caBundle }, i): PatchOp[] => {
    const wanted = wantedBundle(caBundle, trusted, now);
    if (wanted === caBundle) return [];
    return [
      { op: 'test', path: `/webhooks/${i}/name`, value: name },
      { op: 'add', path: `/webhooks/${i}/clientConfig/caBundle`, value: wanted },
    ];
  });
}

/** Whether every webhook of the configuration trusts the authority. */
export function trusts(view: WebhookView | undefined, authority: X509Certificate): boolean {
  if (view === undefined || view.webhooks.length === 0) return false;
  return view.webhooks.every(({ caBundle }) =>
    readBundle(Buffer.from(caBundle, 'base64').toString()).some((c) => c.fingerprint256 === authority.fingerprint256),
  );
}
