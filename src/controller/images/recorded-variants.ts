import type { ImagePrewarm } from '../../api/kinds/index.js';
import { withCredentials } from '../../images/credential-chain.js';
import { runsOn } from '../../images/platform.js';
import { parseReference, withDigest } from '../../images/reference.js';
import { RegistryError } from '../../images/registry-port.js';
import type { RegistryPort } from '../../images/registry-port.js';
import type { Resolution, ResolvedSource } from '../../images/resolve.js';
import { resolveSource } from '../../images/resolve.js';
import type { Landing } from '../../placement/landing.js';
import { obstacleTo, platformsNeeded, privateObstacleTo } from '../../placement/landing.js';
import type { GangCredentialsPort } from '../gangs/credentials.js';
import { OWN_CREDENTIAL } from '../gangs/credentials.js';
import type { ImageRecord } from '../prewarm/record.js';
import { imagesOf } from '../prewarm/record.js';
import { keepOnly, sourcesOf } from '../prewarm/sources.js';
import type { VariantFacts } from './variant-ground.js';
import { VariantGround } from './variant-ground.js';

/** When variants on record are asked for at their registry again. */
export interface CheckRules {
  /** Age from which on an answer does not count any more, ms. */
  maxAgeMs: number;
  /** Images that nodes just failed to pull for the gang. */
  failed: ReadonlySet<string>;
}

interface Check {
  /** Image and platforms that were asked about; what has another basis is another question. */
  basis: string;
  /** Epoch ms. */
  at: number;
  problem: string | undefined;
}

/** A variant on record, with where Pods that run it can land. */
interface Recorded {
  source: string;
  record: ImageRecord & { resolved: string; digest: string };
  landing: Landing | undefined;
  nodePoolClosed: boolean;
  quarantine: string | undefined;
  /** Why nodes may be unable to fetch it if not everybody may read it. */
  hidden: string | undefined;
}

/** Pause between questions about an image that nodes cannot pull, ms. */
const RETRY_MS = 15_000;
/** Longest that one check may take, ms. */
const TIMEOUT_MS = 30_000;

/**
 * Says whether variants that stand on record can still be given to Pods. A gang that is evicted comes back on other nodes, nodes lose
 * their snapshotter, and images are deleted: then the plain image of the same digest is the same program and runs everywhere.
 */
export class RecordedVariants {
  readonly #facts: VariantFacts;
  readonly #credentials: Pick<GangCredentialsPort, 'of'>;
  readonly #checks = new Map<string, Map<string, Check>>();

  constructor(facts: VariantFacts, credentials: Pick<GangCredentialsPort, 'of'>) {
    this.#facts = facts;
    this.#credentials = credentials;
  }

  forget(key: string): void {
    this.#checks.delete(key);
  }

  /** Why the variant on record for a source must not be used any more, by source; asks nobody. */
  problems(key: string, prewarm: ImagePrewarm): ReadonlyMap<string, string> {
    const problems = new Map<string, string>();
    for (const recorded of this.#recorded(prewarm)) {
      const check = this.#checks.get(key)?.get(recorded.source);
      const known = check?.basis === basisOf(recorded) ? check.problem : undefined;
      const problem = recorded.quarantine ?? nodeProblem(recorded) ?? known;
      if (problem !== undefined) problems.set(recorded.source, problem);
    }
    return problems;
  }

  /** Asks registries whether they have the variants on record, for all platforms that they have to serve, where that is due. */
  async check(key: string, prewarm: ImagePrewarm, rules: CheckRules): Promise<void> {
    const checks = this.#checks.get(key) ?? new Map<string, Check>();
    this.#checks.set(key, checks);
    // A spec may be edited for ever.
    keepOnly(checks, sourcesOf(prewarm));
    const due = this.#recorded(prewarm).filter((recorded) => this.#isDue(recorded, checks.get(recorded.source), rules));
    await Promise.all(
      due.map(async (recorded) => {
        const found = await this.#ask(prewarm, recorded, rules.failed.has(recorded.record.resolved));
        const [before, basis] = [checks.get(recorded.source), basisOf(recorded)];
        // A registry that does not answer says nothing new.
        const problem = found === 'unknown' ? (before?.basis === basis ? before.problem : undefined) : found.problem;
        checks.set(recorded.source, { basis, at: this.#facts.clock.now(), problem });
      }),
    );
  }

  #isDue(recorded: Recorded, last: Check | undefined, { maxAgeMs, failed }: CheckRules): boolean {
    if (last?.basis !== basisOf(recorded)) return true;
    const age = this.#facts.clock.now() - last.at;
    // A check from the future was made before the clock was set back.
    return age < 0 || age >= (failed.has(recorded.record.resolved) ? Math.min(RETRY_MS, maxAgeMs) : maxAgeMs);
  }

  /** Nothing while the nodes are not known: what cannot be judged stays as it is. */
  #recorded(prewarm: ImagePrewarm): Recorded[] {
    if (this.#facts.nodeClasses() === undefined) return [];
    const ground = new VariantGround(this.#facts, prewarm);
    return imagesOf(prewarm).flatMap(({ source, record }) => {
      const reading = parseReference(source);
      if (!isVariant(record) || !reading.ok) return [];
      const landing = ground.landingOf(source);
      // Without a policy nobody says what may join; nodes of now count all the same.
      const nodePoolClosed = ground.policyFor(reading.reference)?.spec.nodePoolClosed ?? true;
      const hidden =
        record.portable === true || record.format === undefined
          ? undefined
          : privateObstacleTo(record.format, landing, nodePoolClosed);
      return [{ source, record, landing, nodePoolClosed, quarantine: ground.quarantined(record.resolved), hidden }];
    });
  }

  async #ask(prewarm: ImagePrewarm, recorded: Recorded, fresh: boolean): Promise<{ problem: string | undefined } | 'unknown'> {
    const { source, record } = recorded;
    const reading = parseReference(source);
    if (!reading.ok) return 'unknown';
    const theirs = record.pulledWith === 'Workload' ? await this.#credentials.of(prewarm, source, reading.reference) : undefined;
    const port = withCredentials(this.#facts.registry(), theirs?.chain ?? OWN_CREDENTIAL);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const needed = neededOf(recorded);
    const wanted = needed === undefined ? {} : { platforms: needed, onePlatform: true as const };
    const plain = await resolveSource(withDigest(reading.reference, record.digest), port, { ...wanted, signal });
    if (!plain.ok) return 'unknown';
    // Nodes tell system and architecture; which image of several for one architecture they pick was proven when it was recorded.
    const has = [...new Set(plain.platforms.flatMap(({ platform }) => platform?.split('/').slice(0, 2).join('/') ?? []))];
    // Nodes of a platform that the source does not have cannot run the gang anyway.
    const platforms = needed === undefined ? has : needed.filter((p) => has.some((own) => runsOn(own, p)));
    const found = await resolveSource(record.resolved, port, { ...(platforms.length === 0 ? {} : { platforms }), fresh, signal });
    if (found.ok && recorded.hidden !== undefined && !(await isPublic(found, port, signal)))
      return { problem: `the variant is private: ${recorded.hidden}` };
    return verdictOf(found);
  }
}

/** Whether anybody may read an image; where it cannot be asked, which is no proof of the contrary, it is taken to be so. */
async function isPublic({ reference }: ResolvedSource, port: RegistryPort, signal: AbortSignal): Promise<boolean> {
  try {
    await port.manifest(reference, { anonymous: true, signal });
    return true;
  } catch (error) {
    // Registries say "absent" of what they do not show to everyone.
    return !(error instanceof RegistryError && (error.outcome === 'auth-denied' || error.notFound));
  }
}

function verdictOf(found: Resolution): { problem: string | undefined } | 'unknown' {
  if (found.ok) return { problem: undefined };
  return found.reason === 'ImageNotFound' || found.reason === 'PlatformMissing' ? { problem: found.message } : 'unknown';
}

function isVariant(record: ImageRecord | undefined): record is Recorded['record'] {
  return record?.outcome === 'accelerated' && record.resolved !== undefined && record.digest !== undefined;
}

/** Why nodes that Pods can land on may be unable to run the variant, or undefined. */
function nodeProblem({ record: { format, portable }, landing, nodePoolClosed }: Recorded): string | undefined {
  if (portable === true) return undefined;
  if (format === undefined) return 'it is not on record which nodes can run the variant';
  return obstacleTo(format, landing, nodePoolClosed);
}

function neededOf({ landing, nodePoolClosed }: Recorded): readonly string[] | undefined {
  return platformsNeeded(landing, nodePoolClosed);
}

function basisOf(recorded: Recorded): string {
  return `${recorded.record.digest} ${recorded.record.resolved} ${neededOf(recorded)?.join(',') ?? 'all'} ${recorded.hidden === undefined ? '' : 'public'}`;
}
