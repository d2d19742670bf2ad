import type { GatedJob, GateView } from './gates.js';
import { jobKind } from './kinds.js';

/** Where jobs of one kind are found in the API. */
export interface GatedKind {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: true;
}

/** Names of versions (API conventions, "API versioning"). It becomes part of an URL, and whoever may edit the Workload wrote it. */
const VERSION = /^v\d{1,3}((alpha|beta)\d{1,3})?$/;

/**
 * Where the job that a gate stands on is read and patched, undefined where its gate is not ours to take off. The version is the one
 * that its Workload names it by: a cluster may serve another one than the table knows.
 */
export function gatedKindOf(job: Pick<GatedJob, 'apiGroup' | 'version' | 'kind'>): GatedKind | undefined {
  const known = jobKind(job);
  if (known?.gated !== true || !VERSION.test(job.version)) return undefined;
  const { group, plural, kind } = known;
  return { group, version: job.version, plural, kind, namespaced: true };
}

/** Why our gate on a Workload stays, undefined where Harbinger takes it off in time. Missing rights are not known beforehand. */
export function whyGateStays({ job }: Pick<GateView, 'job'>, gatedJobs: 'Off' | 'On'): string | undefined {
  if (gatedJobs === 'Off') return `holds.gatedJobs is Off in Harbinger's configuration`;
  if (job === undefined || gatedKindOf(job) !== undefined) return undefined;
  return `Harbinger does not know kind ${job.kind} of ${job.apiGroup}/${job.version}`;
}
