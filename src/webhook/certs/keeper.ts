import type { Reflector } from '../../kube/reflector.js';
import type { KubePort } from '../../kube/port.js';
import { RESOURCE } from '../../kube/resources.js';
import type { Clock, Timer } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Scope } from '../../rewrite/scope.js';
import type { AuthorityKeeper } from './authority.js';
import type { WebhookView } from './ca-bundle.js';
import { bundlePatch, trusts } from './ca-bundle.js';
import type { Authority } from './ca-secret.js';
import type { Leaf } from './leaf.js';
import { leafRequiresRenewal, signLeaf } from './leaf.js';
import { selectorProblem } from './selector.js';

export interface CertKeeperOptions {
  client: KubePort;
  authority: AuthorityKeeper;
  /** Follows the one MutatingWebhookConfiguration that names this service. */
  configuration: Reflector<WebhookView>;
  configurationName: string;
  /** DNS names and IP addresses under which the API server calls. */
  names: readonly string[];
  leafValidityMs: number;
  /** Of the configuration of now. */
  scope: () => Scope;
  clock: Clock;
  log: Log;
  /** Called with each new leaf, the first one included; a throw keeps the old one in force. */
  onLeaf: (leaf: Leaf) => void;
}

/** The wall clock is looked at so often: timers stand still while a virtual machine is suspended. */
const MAX_PAUSE_MS = 60_000;
/** How long API servers are given to take over a bundle that we see in the configuration. */
const MAX_SETTLE_MS = 10_000;
const MIN_PAUSE_MS = 500;

/**
 * Keeps authority, bundle and leaf in step, level-triggered: each turn reads what is there and does what is missing. All
 * replicas run it, since the bundle must be right as long as any of them lives.
 */
export class CertKeeper {
  readonly #options: CertKeeperOptions;
  #authority: Authority | undefined;
  #leaf: Leaf | undefined;
  /** Since when the configuration has trusted the current authority, by fingerprint. */
  #trusted: { fingerprint: string; since: number } | undefined;
  #problem: string | undefined = 'no certificate yet';
  /** What was last said of the selector; said once, not each turn. */
  #selectorProblem: string | undefined;
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #stopped = false;

  constructor(options: CertKeeperOptions) {
    this.#options = options;
    options.configuration.onChange(() => this.kick());
  }

  /** Why the API server cannot call this replica yet, or undefined. */
  get problem(): string | undefined {
    return this.#problem;
  }

  start(): void {
    this.kick();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#running;
  }

  /** Runs a turn now, or right after the one that is running. */
  kick(): void {
    if (this.#stopped) return;
    if (this.#running !== undefined) {
      this.#again = true;
      return;
    }
    this.#timer?.cancel();
    this.#running = this.#turn().finally(() => {
      this.#running = undefined;
      if (this.#stopped) return;
      if (this.#again) {
        this.#again = false;
        return this.kick();
      }
      this.#timer = this.#options.clock.setTimeout(() => this.kick(), this.#pause());
    });
  }

  async #turn(): Promise<void> {
    const { log } = this.#options;
    try {
      this.#authority = await this.#options.authority.ensure();
      await this.#alignBundle(this.#authority);
      this.#watchSelector();
      this.#watchTrust(this.#authority);
      this.#renewLeaf(this.#authority);
      this.#problem = this.#whyNotServing(this.#authority);
    } catch (err) {
      // What was signed stays good: a replica that serves goes on serving while the API server is away.
      if (this.#leaf === undefined) this.#problem = `certificates: ${(err as Error).message}`;
      log.warn({ err }, 'certificates not looked after, trying again');
    }
  }

  async #alignBundle(authority: Authority): Promise<void> {
    const { client, configuration, configurationName: name, clock, log } = this.#options;
    const view = configuration.get(name);
    if (view === undefined) return;
    const ops = bundlePatch(view, authority.trusted, clock.now());
    if (ops.length === 0) return;
    await client.patch(RESOURCE.mutatingWebhooks, { name }, { type: 'json', ops });
    log.info({ configuration: name, authorities: authority.trusted.length }, 'webhook configuration given our authorities');
  }

  /** The plain manifests do not follow the scope as the chart does, and a selector that is too narrow looks like a webhook without effect. */
  #watchSelector(): void {
    const { configuration, configurationName, scope, log } = this.#options;
    const webhooks = configuration.get(configurationName)?.webhooks ?? [];
    const problem = webhooks.map(({ selected }) => selectorProblem(scope(), selected)).find((p) => p !== undefined);
    if (problem !== undefined && problem !== this.#selectorProblem)
      log.warn({ configuration: configurationName, problem }, 'namespaceSelector and scope disagree');
    this.#selectorProblem = problem;
  }

  #watchTrust(authority: Authority): void {
    const { configuration, configurationName, clock } = this.#options;
    const fingerprint = authority.cert.fingerprint256;
    if (!trusts(configuration.get(configurationName), authority.cert)) this.#trusted = undefined;
    else if (this.#trusted?.fingerprint !== fingerprint) this.#trusted = { fingerprint, since: clock.now() };
  }

  #renewLeaf(authority: Authority): void {
    const { names, leafValidityMs, clock, log, onLeaf } = this.#options;
    const now = clock.now();
    const settled = this.#trusted !== undefined && now >= this.#trusted.since + this.#settleMs();
    const reason = leafRequiresRenewal(this.#leaf, authority, now, settled);
    if (reason === undefined) return;
    const leaf = signLeaf(authority, names, now, leafValidityMs);
    onLeaf(leaf);
    this.#leaf = leaf;
    log.info({ reason, expires: leaf.cert.validTo, names }, 'new server certificate');
  }

  #whyNotServing(authority: Authority): string | undefined {
    const { configuration, configurationName } = this.#options;
    if (!configuration.hasSynced)
      return configuration.problem ?? `MutatingWebhookConfiguration ${configurationName} not read yet`;
    const view = configuration.get(configurationName);
    if (view === undefined)
      return `there is no MutatingWebhookConfiguration ${configurationName}; install it or name it with --webhook-configuration`;
    const known = authority.trusted.find((c) => c.fingerprint256 === this.#leaf?.issuer);
    return trusts(view, known ?? authority.cert)
      ? undefined
      : `MutatingWebhookConfiguration ${configurationName} does not hold our authority yet`;
  }

  #settleMs(): number {
    return Math.min(MAX_SETTLE_MS, this.#options.leafValidityMs / 10);
  }

  /** Short enough to see every deadline of the shortest certificate in time; long once all is quiet. */
  #pause(): number {
    const unsettled = this.#problem !== undefined || this.#leaf?.issuer !== this.#authority?.cert.fingerprint256;
    const regular = Math.min(MAX_PAUSE_MS, this.#options.leafValidityMs / 20);
    return Math.max(MIN_PAUSE_MS, unsettled ? Math.min(regular, this.#settleMs() / 2) : regular);
  }
}
