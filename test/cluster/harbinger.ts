import { readFileSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { isTrue, type Draft, type Raw } from './client.js';
import type { Cluster } from './cluster.js';
import { run } from './exec.js';
import { withFileLock } from './lock.js';
import { repoRoot } from './paths.js';
import { bundleProgram } from './program.js';
import { notYet, until } from './until.js';

export interface HarbingerOptions {
  /** Default 1; more than one get a balancer in front. 0 leaves the webhook configuration out. */
  webhookReplicas?: number;
  /** Default 1. */
  controllers?: number;
  /** HarbingerConfig; merged at the top level over one that allows the cluster's registry over plain HTTP. */
  config?: Record<string, unknown>;
  /** More flags, by process. */
  flags?: { webhook?: readonly string[]; controller?: readonly string[] };
  /** Reference of the puller image, once it is in a registry that the nodes reach. */
  pullerImage?: string;
  /** False leaves the CRDs out: the processes start without them. Default true. */
  crds?: boolean;
  /** Wait until all processes are ready; default true. */
  waitReady?: boolean;
}

/** A process of Harbinger under its own ServiceAccount. */
export interface HarbingerProcess {
  readonly name: string;
  readonly pid: number;
  readonly healthPort: number;
  readonly logPath: string;
  /** Default SIGKILL; resolves with exit code or signal name when the process has exited. */
  kill(signal?: NodeJS.Signals): Promise<number | string>;
  /** Starts it again after `kill`, on the same ports; does not wait for readiness. */
  start(): Promise<void>;
  /** Kills and starts it. */
  restart(signal?: NodeJS.Signals): Promise<void>;
  /** Waits until /readyz answers 200; fails at once when the process exits. */
  untilReady(): Promise<void>;
  /** Text of /metrics. */
  metrics(): Promise<string>;
  logs(): string;
}

export interface Harbinger {
  readonly webhooks: readonly HarbingerProcess[];
  readonly controllers: readonly HarbingerProcess[];
  /** Where the API server calls the webhook: a replica, or the balancer. */
  readonly webhookUrl: string;
  /** Replaces the configuration file of all processes, which they read again by themselves. */
  writeConfig(config: Record<string, unknown>): void;
  /** Installs the CRDs where `crds: false` left them out. */
  applyCrds(): Promise<void>;
}

interface Process {
  cluster: Cluster;
  deployment: Deployment;
  index: number;
  overrides: Readonly<Record<string, string>>;
  extra: readonly string[];
}

interface Deployment {
  metadata: { name: string; namespace: string };
  spec: {
    template: {
      spec: {
        serviceAccountName: string;
        containers: [{ name: string; args: string[]; env?: { name: string; value: string }[] }];
      };
    };
  };
}

/**
 * Installs Harbinger from manifests/ with its Deployments played by processes on this machine: each runs the bundle with the
 * arguments of its Deployment and a token of its ServiceAccount, so that RBAC of the manifests is what is tested.
 */
export async function installHarbinger(cluster: Cluster, options: HarbingerOptions): Promise<Harbinger> {
  const { webhookReplicas = 1, controllers: controllerCount = 1, flags = {}, pullerImage } = options;
  const [balancerPort = 0, ...ports] = await cluster.leasePorts(1 + webhookReplicas);
  const webhookUrl = `https://127.0.0.1:${webhookReplicas > 1 ? balancerPort : (ports[0] ?? 0)}/mutate`;
  const manifests = readManifests().map((m) => withProgram(m, pullerImage));
  const [crds, others] = [manifests.filter(isCrd), manifests.filter((m) => !isCrd(m))];
  const applyCrds = (): Promise<void> => applyManifests(cluster, crds, undefined);
  const withoutCrds = applyManifests(cluster, others, webhookReplicas > 0 ? webhookUrl : undefined);
  await Promise.all([ensureBundle(), withoutCrds, options.crds === false ? undefined : applyCrds()]);
  const configPath = join(cluster.runDir, 'harbinger.yaml');
  const writeConfig = (config: Record<string, unknown>): void =>
    replaceFile(configPath, stringify({ ...defaults(cluster), ...config }));
  writeConfig(options.config ?? {});
  if (webhookReplicas > 1) await startBalancer(cluster, balancerPort, ports);

  const webhooks = await startAll(
    ports.map((port, index) => ({
      cluster,
      deployment: deploymentOf(manifests, 'webhook'),
      index,
      overrides: { '--config': configPath, '--port': String(port), '--serving-name': '127.0.0.1' },
      extra: flags.webhook ?? [],
    })),
  );
  const controllers = await startAll(
    Array.from({ length: controllerCount }, (_, index) => ({
      cluster,
      deployment: deploymentOf(manifests, 'controller'),
      index,
      overrides: { '--config': configPath, ...(pullerImage ? { '--puller-image': pullerImage } : {}) },
      extra: flags.controller ?? [],
    })),
  );
  if (options.waitReady !== false) {
    await Promise.all([...webhooks, ...controllers].map((p) => p.untilReady()));
    if (webhookReplicas > 0) await untilCalled(cluster);
  }
  return { webhooks, controllers, webhookUrl, writeConfig, applyCrds };
}

const startAll = (processes: readonly Process[]): Promise<HarbingerProcess[]> => Promise.all(processes.map(startProcess));

function deploymentOf(manifests: readonly Draft[], container: string): Deployment {
  const deployments = manifests.filter((m) => m.kind === 'Deployment') as unknown as Deployment[];
  const found = deployments.find((d) => d.spec.template.spec.containers[0].name === container);
  if (!found) throw new Error(`manifests/ have no Deployment with a container "${container}"`);
  return found;
}

// Processes poll the file: they must never see half of it.
function replaceFile(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

/** Applies CRDs, namespace, accounts and rights, and the webhook configuration pointed at `webhookUrl` (absent: left out). */
async function applyManifests(cluster: Cluster, manifests: readonly Draft[], webhookUrl: string | undefined): Promise<void> {
  const { client } = cluster;
  const all = manifests.flatMap((m) => {
    if (m.kind === 'Deployment') return [];
    if (m.kind !== 'MutatingWebhookConfiguration') return [m];
    return webhookUrl ? [withUrl(m, webhookUrl)] : [];
  });
  await client.apply(all.filter((m) => m.kind === 'Namespace'));
  await Promise.all(
    all.map(async (m) => {
      if (m.kind !== 'Namespace') await client.apply(m);
      if (!isCrd(m)) return;
      await client.watchUntil(`${m.apiVersion}/${m.kind}`, String(m.metadata.name), (crd) => isTrue(crd, 'Established'), 60_000);
    }),
  );
}

// The policy on DaemonSets names the program that the flag of the Deployment names.
function withProgram(manifest: Draft, pullerImage: string | undefined): Draft {
  if (manifest.kind !== 'ValidatingAdmissionPolicy' || pullerImage === undefined) return manifest;
  const spec = manifest['spec'] as { variables: { name: string; expression: string }[] };
  const variables = spec.variables.map((v) => (v.name === 'program' ? { ...v, expression: `'${pullerImage}'` } : v));
  return { ...manifest, spec: { ...spec, variables } };
}

const isCrd = (manifest: Draft): boolean => manifest.kind === 'CustomResourceDefinition';

/** All documents of manifests/, in the order of its kustomization. */
function readManifests(): Draft[] {
  const dir = join(repoRoot(), 'manifests');
  const list = parseAllDocuments(readFileSync(join(dir, 'kustomization.yaml'), 'utf8'))[0]?.toJS() as { resources: string[] };
  return list.resources.flatMap((file) => parseAllDocuments(readFileSync(join(dir, file), 'utf8')).map((d) => d.toJS() as Draft));
}

function withUrl(manifest: Draft, url: string): Draft {
  const webhooks = (manifest['webhooks'] as { clientConfig: unknown }[]).map((webhook) => ({
    ...webhook,
    clientConfig: { url },
  }));
  return { ...manifest, webhooks };
}

const defaults = (cluster: Cluster): Record<string, unknown> => ({
  registries: cluster.hasRegistry ? [{ host: cluster.registry.host, plainHTTP: true, allowLocalAddresses: true }] : [],
});

// The bundle is rebuilt when a source is newer: a test against yesterday's bundle passes or fails for no reason.
async function ensureBundle(): Promise<void> {
  const root = repoRoot();
  await withFileLock(join(root, '.out/bundle.lock'), async () => {
    const bundle = statSync(join(root, '.out/harbinger.mjs'), { throwIfNoEntry: false });
    const newest = Math.max(
      ...readdirSync(join(root, 'src'), { recursive: true }).map((f) => statSync(join(root, 'src', String(f))).mtimeMs),
    );
    if (!bundle || bundle.mtimeMs < newest) await run(process.execPath, ['tools/run.mjs', 'tools/bundle.ts'], { cwd: root });
  });
}

async function startBalancer(cluster: Cluster, port: number, backends: readonly number[]): Promise<void> {
  const program = await bundleProgram('test/cluster/balancer.ts');
  await cluster.spawn({ name: 'balancer', command: process.execPath, args: [program, port, ...backends].map(String) });
}

async function startProcess({ cluster, deployment, index, overrides, extra }: Process): Promise<HarbingerProcess> {
  const { name: deploymentName, namespace } = deployment.metadata;
  const pod = deployment.spec.template.spec;
  const container = pod.containers[0];
  const name = `${deploymentName}-${index}`;
  const [healthPort = 0] = await cluster.leasePorts(1);
  const kubeconfig = await cluster.kubeconfigFor(pod.serviceAccountName, namespace);
  const all = { ...overrides, '--health-port': String(healthPort), '--kubeconfig': kubeconfig, '--identity': name };
  const args = [join(repoRoot(), '.out/harbinger.mjs'), ...replaceFlags(container.args, all), ...extra];
  const env = Object.fromEntries((container.env ?? []).map((e) => [e.name, e.value]));
  let { pid } = await cluster.spawn({ name, command: process.execPath, args, env });

  const { supervisor } = cluster;
  const logPath = join(cluster.logDir, `${name}.log`);
  const kill = (signal: NodeJS.Signals = 'SIGKILL'): Promise<number | string> => supervisor.kill(name, signal);
  const start = async (): Promise<void> => void ({ pid } = await supervisor.start(name));
  const health = (path: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${healthPort}${path}`, { signal: AbortSignal.timeout(20_000) });
  return {
    name,
    get pid() {
      return pid;
    },
    healthPort,
    logPath,
    kill,
    start,
    restart: async (signal) => {
      await kill(signal);
      await start();
    },
    untilReady: () => untilReady(cluster, name, () => health('/readyz')),
    metrics: async () => (await health('/metrics')).text(),
    logs: () => readFileSync(logPath, 'utf8'),
  };
}

async function untilReady(cluster: Cluster, name: string, probe: () => Promise<Response>): Promise<void> {
  await until(
    `${name} to be ready`,
    async () => {
      await cluster.supervisor.mustRun(name);
      const answer = await probe();
      return answer.ok || notYet(`/readyz answers ${answer.status}: ${await answer.text()}`);
    },
    { timeoutMs: 120_000 },
  );
}

// A webhook without caBundle is called in vain, and `Ignore` hides that: wait until the replicas have written it.
async function untilCalled(cluster: Cluster): Promise<void> {
  const hasBundle = (object: Raw): boolean =>
    (object['webhooks'] as { clientConfig: { caBundle?: string } }[]).every((w) => w.clientConfig.caBundle);
  await cluster.client.watchUntil('admissionregistration.k8s.io/v1/MutatingWebhookConfiguration', 'harbinger', hasBundle, 60_000);
}

// Arguments of the Deployment with the values that differ outside a Pod replaced, and the flags that it lacks added.
function replaceFlags(args: readonly string[], values: Process['overrides']): string[] {
  const kept = args.filter((arg) => !Object.keys(values).some((flag) => arg === flag || arg.startsWith(`${flag}=`)));
  return [...kept, ...Object.entries(values).map(([flag, value]) => `${flag}=${value}`)];
}
