import { clip } from '../api/conditions.js';
import { formatTime } from '../api/duration.js';
import type { PolicyTally } from '../api/kinds/acceleration-policy.js';
import type { Outcome } from '../api/outcomes.js';
import { isConflict, isNotFound } from '../kube/errors.js';
import type { KubePort } from '../kube/port.js';
import { RESOURCE } from '../kube/resources.js';
import type { Clock, Timer } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Verdict } from '../rewrite/decide.js';

/** What stands in the cluster: counts of all replicas, and the version that a write is guarded by. */
export interface PolicyCounts {
  resourceVersion: string;
  accelerated: number;
  left: number;
  /** When the counts were last seen to change (epoch ms), by whichever replica. */
  countedAt: number;
}

export interface TallyOptions {
  client: Pick<KubePort, 'patch'>;
  /** Undefined where there is no such policy (any more). */
  counts: (policy: string) => PolicyCounts | undefined;
  clock: Clock;
  log: Log;
  /** In [0, 1). */
  random: () => number;
}

/** Outcomes that somebody can mend: the registry, whoever converts images, or the author of the policy. */
const PROBLEMS: ReadonlySet<Outcome> = new Set<Outcome>([
  'variant-missing',
  'variant-stale',
  'freshness-unknown',
  'variant-unrecognised',
  'platform-missing',
  'node-incapable',
  'registry-error',
  'auth-denied',
  'budget-exceeded',
  'circuit-open',
]);

/** A policy is written once in so long, by all replicas together. */
const EVERY_MS = 60_000;
/** How long the first decision waits for others; drawn anew each time, so that replicas do not write at once. */
const GATHER_MS = [1_000, 3_000] as const;
const MAX_IMAGE = 512;
const MAX_MESSAGE = 512;

interface Pending {
  accelerated: number;
  left: number;
  /** At: epoch ms. */
  lastProblem?: Omit<NonNullable<PolicyTally['lastProblem']>, 'time'> & { at: number };
}

/**
 * Counts what became of images under each policy and writes it to the policy's status, in the background: an admission writes
 * nothing. A write that meets another replica's is dropped and made again on the newer counts. What a killed replica had not
 * written yet is lost; these are numbers for people.
 */
export class PolicyTallies {
  readonly #options: TallyOptions;
  readonly #pending = new Map<string, Pending>();
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: TallyOptions) {
    this.#options = options;
  }

  /** `changed` false where nothing is changed whatever was decided (mode Observe): then all images are left. */
  count(verdicts: readonly Verdict[], changed: boolean): void {
    for (const { decision, already } of verdicts) {
      const { policy, outcome, source, message = '' } = decision;
      // What an earlier call of this webhook wrote was counted then.
      if (policy === undefined || already) continue;
      const pending = this.#of(policy);
      pending[changed && outcome === 'accelerated' ? 'accelerated' : 'left']++;
      if (!PROBLEMS.has(outcome)) continue;
      pending.lastProblem = { at: this.#options.clock.now(), outcome, image: clip(source, MAX_IMAGE), message };
    }
    if (this.#pending.size > 0) this.#arm();
  }

  /** Writes what is left, once. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#writing;
    await this.#write(() => true);
  }

  #of(policy: string): Pending {
    const known = this.#pending.get(policy);
    if (known !== undefined) return known;
    const fresh: Pending = { accelerated: 0, left: 0 };
    this.#pending.set(policy, fresh);
    return fresh;
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#stopped) return;
    const { clock, random } = this.#options;
    const [least, most] = GATHER_MS;
    this.#timer = clock.setTimeout(
      () => {
        this.#writing = this.#write(({ countedAt }) => clock.now() - countedAt >= EVERY_MS).finally(() => {
          this.#timer = undefined;
          if (this.#pending.size > 0) this.#arm();
        });
      },
      least + random() * (most - least),
    );
  }

  async #write(isDue: (counts: PolicyCounts) => boolean): Promise<void> {
    for (const [name, pending] of [...this.#pending]) {
      const counts = this.#options.counts(name);
      if (counts === undefined) this.#pending.delete(name);
      else if (isDue(counts)) await this.#writeOne(name, pending, counts);
    }
  }

  async #writeOne(name: string, pending: Pending, counts: PolicyCounts): Promise<void> {
    const { client, log } = this.#options;
    // What is counted from here on is for the next write.
    this.#pending.delete(name);
    const { accelerated, left, lastProblem } = pending;
    const decisions = { accelerated: counts.accelerated + accelerated, left: counts.left + left };
    const status: PolicyTally = { decisions, ...(lastProblem === undefined ? {} : { lastProblem: inStatus(lastProblem) }) };
    // As a condition: two replicas that add to the same counts would lose one of the sums.
    const body = { metadata: { resourceVersion: counts.resourceVersion }, status };
    try {
      await client.patch(RESOURCE.accelerationPolicies, { name }, { type: 'merge', body }, { subresource: 'status' });
    } catch (err) {
      if (isNotFound(err)) return;
      this.#giveBack(name, pending);
      if (!isConflict(err)) log.warn({ err, policy: name }, 'counts of a policy not written, trying again');
    }
  }

  #giveBack(name: string, pending: Pending): void {
    const since = this.#of(name);
    since.accelerated += pending.accelerated;
    since.left += pending.left;
    if (pending.lastProblem !== undefined) since.lastProblem ??= pending.lastProblem;
  }
}

/** Made when it is written: an admission is no time for calendars. */
function inStatus({ at, message, ...rest }: NonNullable<Pending['lastProblem']>): NonNullable<PolicyTally['lastProblem']> {
  return { time: formatTime(at), ...rest, message: clip(message, MAX_MESSAGE) };
}
