import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { readAuthority, regenerate } from '../../src/webhook/certs/ca-secret.js';
import { signLeaf } from '../../src/webhook/certs/leaf.js';
import type { Draft } from '../../test/cluster/client.js';
import { Cluster } from '../../test/cluster/cluster.js';
import type { HarbingerProcess } from '../../test/cluster/harbinger.js';
import { bundleProgram } from '../../test/cluster/program.js';
import { notYet, until } from '../../test/cluster/until.js';
import type { Target } from './load/connection.js';
import type { LoadSpec } from './load/main.js';
import type { Load } from './load/patterns.js';
import { MadeUpRegistry } from './registry.js';

export const NAMESPACE = 'team';
const HOUR_MS = 3_600_000;
const POLICIES = 'accelerationpolicies.harbinger.dev';

/** One replica as it is installed, a bare handler beside it, registries that make images up, and a load generator of its own process. */
export class Ground {
  readonly cluster: Cluster;
  readonly webhook: HarbingerProcess;
  readonly target: Target;
  readonly bare: Target;
  readonly registry: MadeUpRegistry;
  /** Hangs from the start. */
  readonly silent: MadeUpRegistry;
  readonly #bareProcess: ChildProcess;
  readonly #generator: string;

  private constructor(parts: Pick<Ground, 'cluster' | 'webhook' | 'target' | 'registry' | 'silent'> & BareParts) {
    this.cluster = parts.cluster;
    this.webhook = parts.webhook;
    this.target = parts.target;
    this.registry = parts.registry;
    this.silent = parts.silent;
    this.bare = parts.bare;
    this.#bareProcess = parts.bareProcess;
    this.#generator = parts.generator;
  }

  static async start(say: (line: string) => void): Promise<Ground> {
    const [registry, silent] = [await MadeUpRegistry.start(), await MadeUpRegistry.start()];
    silent.hangs = true;
    const cluster = await Cluster.start({ name: 'bench-webhook', registry: false, say });
    try {
      await cluster.client.apply({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: NAMESPACE, labels: { 'harbinger.dev/accelerate': 'enabled' } },
      });
      const registries = [registry, silent].map(({ host }) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
      const harbinger = await cluster.installHarbinger({ controllers: 0, config: { registries } });
      const [webhook] = harbinger.webhooks;
      if (webhook === undefined) throw new Error('no replica was started');
      await cluster.client.apply(policy('all', { match: { images: ['127.0.0.1:*/**'] } }));
      const target = { port: Number(new URL(harbinger.webhookUrl).port), ca: await caBundle(cluster) };
      const generator = await bundleProgram('tools/bench/load/main.ts');
      return new Ground({ cluster, webhook, target, registry, silent, generator, ...(await startBare()) });
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get barePid(): number {
    return this.#bareProcess.pid ?? 0;
  }

  async stop(): Promise<void> {
    this.#bareProcess.kill();
    this.registry.stop();
    this.silent.stop();
    await this.cluster.stop();
  }

  /** Runs the load generator; rejects when an answer is wrong or missing. */
  async load(spec: LoadSpec): Promise<Load> {
    const child = spawn(process.execPath, [this.#generator], { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.end(JSON.stringify(spec));
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    const code = await new Promise((resolve) => child.on('close', resolve));
    if (code !== 0) throw new Error(`the load generator failed on pattern ${spec.pattern}; its error stands above`);
    return JSON.parse(Buffer.concat(chunks).toString()) as Load;
  }

  /** A fresh process with nothing cached, which knows all policies. */
  async restart(policies = 1): Promise<void> {
    await this.webhook.restart('SIGTERM');
    await this.webhook.untilReady();
    await this.untilPolicies(policies);
  }

  /** Waits until the replica knows exactly so many policies. */
  async untilPolicies(count: number): Promise<void> {
    await until(`the webhook to know ${count} policies`, async () => {
      const known = await this.metric('harbinger_kube_cached_objects', `resource="${POLICIES}"`);
      return known === count || notYet(known);
    });
  }

  /** Sum of the samples of a metric whose labels contain `labels`. */
  async metric(name: string, labels = ''): Promise<number> {
    const lines = (await this.webhook.metrics()).split('\n').filter((l) => l.startsWith(name) && l.includes(labels));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }
}

interface BareParts {
  bare: Target;
  bareProcess: ChildProcess;
  generator: string;
}

/** An AccelerationPolicy for eStargz. */
export function policy(name: string, spec: Record<string, unknown>): Draft {
  return {
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'AccelerationPolicy',
    metadata: { name },
    spec: { variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }], ...spec },
  };
}

async function caBundle(cluster: Cluster): Promise<string> {
  const all = await cluster.client.get('admissionregistration.k8s.io/v1/MutatingWebhookConfiguration', 'harbinger');
  const [webhook] = all['webhooks'] as { clientConfig: { caBundle: string } }[];
  return Buffer.from(webhook?.clientConfig.caBundle ?? '', 'base64').toString();
}

async function startBare(): Promise<Omit<BareParts, 'generator'>> {
  const program = await bundleProgram('tools/bench/bare.ts');
  const data = regenerate(undefined, Date.now(), HOUR_MS);
  const authority = readAuthority({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'bench' }, data });
  const { pair } = signLeaf(authority, ['127.0.0.1'], Date.now(), HOUR_MS);
  const bareProcess = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit', 'ipc'] });
  bareProcess.stdin?.end(JSON.stringify(pair));
  const port = await new Promise<number>((resolve, reject) => {
    bareProcess.stdout?.once('data', (text: Buffer) => resolve(Number(text.toString())));
    bareProcess.once('exit', (code) => reject(new Error(`the bare handler ended with ${code}`)));
  });
  return { bare: { port, ca: authority.cert.toString() }, bareProcess };
}
