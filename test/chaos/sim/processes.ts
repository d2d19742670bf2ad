import { pino } from 'pino';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { Manager } from '../../../src/controller/manager.js';
import { EventRecorder } from '../../../src/kube/events.js';
import { Lease } from '../../../src/kube/lease.js';
import type { Log } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { Watchdog } from '../../../src/webhook/watchdog.js';
import type { CallFault } from './client.js';
import { SimClient } from './client.js';
import type { World } from './models/world.js';
import { SYSTEM } from './models/world.js';
import { Host } from './timeline.js';

/** What a replica needs from the run that it is part of. */
export interface Seat {
  world: World;
  name: string;
  config: () => HarbingerConfig;
  /** Asked for every call to the API server. */
  fault: (call: { verb: string; resource: { kind: string } }) => CallFault | undefined;
  log: string[];
}

/** Longest time from a crash to the next start of the container, ms. */
const RESTART_MS = [1_000, 8_000] as const;
/** Leases are renewed less often than in a cluster: it is most of what a quiet one does, and changes nothing else. */
const RENEW_MS = 5_000;
const PULLER = 'registry.test/harbinger/puller:1';

/** One life of a process: what it was made of goes with it. */
interface Life {
  host: Host;
  client: SimClient;
  lease: Lease | undefined;
  manager: Manager | undefined;
  startedAt: number;
}

abstract class Replica {
  protected readonly seat: Seat;
  protected life: Life | undefined;
  #startAt = 0;

  constructor(seat: Seat) {
    this.seat = seat;
  }

  get client(): SimClient | undefined {
    return this.life?.client;
  }

  get host(): Host | undefined {
    return this.life?.host;
  }

  start(): void {
    const { world, name, fault } = this.seat;
    const host = new Host(name, world.timeline);
    const client = new SimClient({ ...world, host, random: world.random.fork(), fault });
    this.life = { host, client, lease: undefined, manager: undefined, startedAt: world.timeline.now };
    this.run(this.life);
  }

  /** Ends the process at once; it starts anew after a while. */
  crash(downMs?: number): void {
    const { world, name } = this.seat;
    if (this.life !== undefined) {
      this.life.host.kill();
      this.life.client.breakWatches();
    }
    this.life = undefined;
    const ms = downMs ?? world.random.int(...RESTART_MS);
    this.#startAt = Math.max(this.#startAt, world.timeline.now + ms);
    world.note(`${name} is down for ${ms} ms`);
    world.timeline.after(ms, () => {
      // A longer outage that began meanwhile counts.
      if (this.life === undefined && world.timeline.now >= this.#startAt) this.start();
    });
  }

  protected abstract run(life: Life): void;

  protected log(): Log {
    const write = (line: string): void => void this.seat.log.push(line);
    return pino({ level: 'info', base: null, timestamp: false }, { write });
  }
}

/** A replica of the controller: the real Manager behind a real Lease. */
export class Controller extends Replica {
  /** Failpoints at which the process is to die, each once. */
  readonly armed: Set<string>;
  readonly #hit: (point: string) => void;

  constructor(seat: Seat, armed: Set<string>, hit: (point: string) => void) {
    super(seat);
    this.armed = armed;
    this.#hit = hit;
  }

  get leading(): boolean {
    return this.life?.lease?.held === true;
  }

  /** Since when it runs, epoch ms; undefined while it is down or frozen. */
  get runsSince(): number | undefined {
    return this.life === undefined || this.life.host.frozen ? undefined : this.life.startedAt;
  }

  /** It has read another configuration. */
  reconsider(): void {
    const { life } = this;
    life?.host.enter(() => life.manager?.reconsider());
  }

  protected override run(life: Life): void {
    const { world, name, config } = this.seat;
    const { host, client } = life;
    const [log, metrics, clock] = [this.log(), new Metrics(), host.clock];
    const random = world.random.fork();
    const lease = new Lease({
      client,
      namespace: SYSTEM,
      name: 'harbinger-controller',
      identity: `${name}-${life.startedAt}`,
      clock,
      log,
      random: () => random.next(),
      retryPeriodMs: RENEW_MS,
      monotonic: host.monotonic,
    });
    life.lease = lease;
    const port = world.registry.portOf(host);
    const manager = new Manager({
      client,
      registry: () => port,
      config,
      events: new EventRecorder({ client, controller: 'harbinger.dev/controller', instance: name, clock, log, metrics }),
      clock,
      monotonic: host.monotonic,
      log,
      metrics,
      namespace: SYSTEM,
      pullerImage: PULLER,
      leading: () => lease.held,
      failpoint: (at) => this.#failpoint(at, life),
    });
    life.manager = manager;
    manager.follow();
    void lease.run(new AbortController().signal, {
      onStarted: () => void manager.lead(),
      onLost: (reason) => {
        world.note(`${name} lost its lease: ${reason}`);
        if (this.life === life) this.crash();
      },
    });
  }

  #failpoint(at: string, life: Life): void {
    if (!this.armed.delete(at)) return;
    this.#hit(at);
    if (this.life === life) this.crash();
    throw new Error(`killed ${at}`);
  }
}

/** A replica of the webhook, as far as it ends holds: the real Watchdog behind its Lease. */
export class Webhook extends Replica {
  protected override run(life: Life): void {
    const { world, name, config } = this.seat;
    const { host, client } = life;
    const [log, metrics, clock] = [this.log(), new Metrics(), host.clock];
    const random = world.random.fork();
    // The watchdog hands these on to its Lease.
    const lease = {
      namespace: SYSTEM,
      name: 'harbinger-watchdog',
      identity: `${name}-${life.startedAt}`,
      random: () => random.next(),
      retryPeriodMs: RENEW_MS,
      monotonic: host.monotonic,
    };
    const watchdog = new Watchdog({
      client,
      lease,
      gatedMs: () => config().holds.gatedSeconds * 1000,
      monotonic: host.monotonic,
      unstampedHoldMs: () => config().budgets.unstampedHoldSeconds * 1000,
      clock,
      log,
      metrics,
      admission: new AdmissionMetrics(metrics, host.monotonic),
      events: new EventRecorder({ client, controller: 'harbinger.dev/webhook', instance: name, clock, log, metrics }),
    });
    watchdog.start();
  }
}
