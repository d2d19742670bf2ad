import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { isTrue, type ClusterClient, type Draft } from './client.js';
import type { ControlPlane } from './control-plane.js';
import { leasePorts } from './leases.js';
import { cacheRoot } from './paths.js';
import type { Pki } from './pki.js';
import type { Supervisor } from './supervisor/client.js';
import { moduleDir } from './tools.js';
import { notYet, until } from './until.js';

export interface KueueOptions {
  /**
   * Call Kueue's webhooks. Off by default, for speed and since its `Fail` webhooks refuse Pods when Kueue is down: Jobs
   * of tests then have to be written with `suspend: true`.
   */
  webhooks?: boolean;
  /** Integrations; default only batch/job. */
  frameworks?: readonly string[];
  /** Whether Kueue shows in conditions (PodsReady) when all Pods of a gang are up. On by default, as in Kueue 0.19; before that it was off. */
  waitForPodsReady?: boolean;
  /** More fields of Kueue's configuration, merged over ours at the top level. */
  config?: Record<string, unknown>;
}

interface Context {
  supervisor: Supervisor;
  controlPlane: ControlPlane;
  client: ClusterClient;
  /** Path of the kueue program. */
  program: string;
}

const NAMESPACE = 'kueue-system';
const SECRET = 'kueue-webhook-server-cert';
// Kueue's certificate rotator waits for ever for a conversion stanza on exactly these.
const CONVERTED = ['workloads', 'clusterqueues', 'localqueues', 'cohorts', 'multikueueclusters'];

/** Runs Kueue as a process against the cluster; resolves when it reports ready. */
export async function startKueue(context: Context, options: KueueOptions = {}): Promise<void> {
  const { supervisor, controlPlane, client, program } = context;
  const [webhookPort = 0, healthPort = 0, metricsPort = 0] = await leasePorts(3, supervisor.identity);
  const module = await moduleDir('sigs.k8s.io/kueue');
  const certDir = join(supervisor.state.runDir, 'kueue-certs');
  const url = options.webhooks === true ? `https://127.0.0.1:${webhookPort}` : undefined;
  await client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
  await Promise.all([
    client.apply(certificates(controlPlane.pki, certDir)),
    ...customResources(module).map((crd) => createEstablished(client, withConversion(crd, controlPlane.pki.caCert))),
    client.apply(webhookConfigurations(module, url)),
  ]);
  const config = join(supervisor.state.runDir, 'kueue.yaml');
  writeFileSync(
    config,
    stringify({ ...configuration({ certDir, webhookPort, healthPort, metricsPort }, options), ...options.config }),
  );
  const kubeconfig = controlPlane.kubeconfigForUser('system:kueue', ['system:masters']);
  await supervisor.spawn({
    name: 'kueue',
    command: program,
    args: ['--config', config, '--kubeconfig', kubeconfig, '--zap-log-level=2'],
  });
  await untilKueueReady(supervisor, healthPort);
  await supervisor.describe({ kueueHealthPort: healthPort });
}

/** Resolves when Kueue reports ready. */
export async function untilKueueReady(supervisor: Supervisor, healthPort: number): Promise<void> {
  await until(
    'Kueue to be ready',
    async () => {
      await supervisor.mustRun('kueue');
      const answer = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
      return answer.ok || notYet(`${answer.status} ${await answer.text()}`);
    },
    { timeoutMs: 90_000 },
  );
}

/** Installs Kueue's kinds alone, for a cluster in which nobody acts on them. */
export async function installKueueTypes(client: ClusterClient): Promise<void> {
  const module = await moduleDir('sigs.k8s.io/kueue');
  await Promise.all(customResources(module).map((crd) => createEstablished(client, crd)));
}

function configuration(
  at: { certDir: string; webhookPort: number; healthPort: number; metricsPort: number },
  { frameworks = ['batch/job'], waitForPodsReady = true }: KueueOptions,
): Record<string, unknown> {
  return {
    apiVersion: 'config.kueue.x-k8s.io/v1beta2',
    kind: 'Configuration',
    namespace: NAMESPACE,
    health: { healthProbeBindAddress: `127.0.0.1:${at.healthPort}` },
    metrics: { bindAddress: `127.0.0.1:${at.metricsPort}` },
    webhook: { host: '127.0.0.1', port: at.webhookPort, certDir: at.certDir },
    leaderElection: { leaderElect: false },
    internalCertManagement: { enable: true, webhookServiceName: 'kueue-webhook-service', webhookSecretName: SECRET },
    clientConnection: { qps: 300, burst: 500 },
    waitForPodsReady: { timeout: '10m', blockAdmission: false },
    integrations: { frameworks: [...frameworks] },
    // Its server has a fixed port on all interfaces: two clusters on one machine would fight for it.
    featureGates: { VisibilityOnDemand: false, ...(waitForPodsReady ? {} : { DisableWaitForPodsReady: true }) },
  };
}

// Kueue's rotator accepts a certificate that is valid for its service name. Ours also names the loopback address, so that
// its webhooks can be called by URL, and it lies in the Secret and in certDir from the start, so nothing has to be copied.
function certificates(pki: Pki, certDir: string): Draft {
  const { cert, key } = pki.issue({
    commonName: 'kueue',
    addresses: [`kueue-webhook-service.${NAMESPACE}.svc`, '127.0.0.1'],
  });
  mkdirSync(certDir, { recursive: true });
  const data = { 'ca.crt': pki.caCert, 'ca.key': pki.caKey, 'tls.crt': cert, 'tls.key': key };
  for (const [name, text] of Object.entries(data))
    if (name.startsWith('tls')) writeFileSync(join(certDir, name), text, { mode: 0o600 });
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: SECRET, namespace: NAMESPACE }, stringData: data };
}

// Kueue writes its authority into the conversion stanza of these and starts when it stands in all. It stands there from the
// start: each such update of the Workload's CRD keeps the API server busy for a second.
function withConversion(crd: Draft, caCert: string): Draft {
  const spec = crd['spec'] as { names: { plural: string } };
  if (!CONVERTED.includes(spec.names.plural)) return crd;
  const service = { name: 'kueue-webhook-service', namespace: NAMESPACE, path: '/convert' };
  const clientConfig = { service, caBundle: Buffer.from(caCert).toString('base64') };
  return {
    ...crd,
    spec: { ...spec, conversion: { strategy: 'Webhook', webhook: { clientConfig, conversionReviewVersions: ['v1'] } } },
  };
}

/**
 * Kueue's CRDs without descriptions (nine tenths of their 1.6 MB) and with the storage version v1beta2 only, which is what
 * Kueue itself and we speak: the API server compiles every rule of every version at each update. Parsed once per machine.
 */
function customResources(module: string): Draft[] {
  const cached = join(cacheRoot(), 'crds', `${basename(module)}-storage.json`);
  if (existsSync(cached)) return JSON.parse(readFileSync(cached, 'utf8')) as Draft[];
  const dir = join(module, 'config/components/crd/bases');
  const crds = readdirSync(dir)
    .filter((file) => file.endsWith('.yaml'))
    .flatMap((file) => documents(join(dir, file)))
    .map(storageVersionOnly);
  const text = JSON.stringify(crds, (key, value: unknown) =>
    key === 'description' && typeof value === 'string' ? undefined : value,
  );
  mkdirSync(dirname(cached), { recursive: true });
  writeFileSync(`${cached}.${process.pid}`, text);
  renameSync(`${cached}.${process.pid}`, cached);
  return JSON.parse(text) as Draft[];
}

// Kueue's own update of a CRD that the API server is still busy with ends in a conflict, and its retries are seconds apart.
async function createEstablished(client: ClusterClient, crd: Draft): Promise<void> {
  await client.create(crd);
  await client.watchUntil(`${crd.apiVersion}/${crd.kind}`, String(crd.metadata.name), (o) => isTrue(o, 'Established'), 60_000);
}

function storageVersionOnly(crd: Draft): Draft {
  const spec = crd['spec'] as { versions: { storage: boolean }[] };
  return { ...crd, spec: { ...spec, versions: spec.versions.filter((v) => v.storage) } };
}

interface Webhook {
  clientConfig: { service?: { path: string } };
  objectSelector?: unknown;
}

function webhookConfigurations(module: string, url: string | undefined): Draft[] {
  return documents(join(module, 'config/components/webhook/manifests.yaml')).map((configuration) => {
    const webhooks = (configuration['webhooks'] as Webhook[]).map((webhook) => {
      const path = webhook.clientConfig.service?.path ?? '';
      if (url) return { ...webhook, clientConfig: { url: `${url}${path}` } };
      const never = { matchLabels: { 'harbinger.test/never': 'true' } };
      return {
        ...webhook,
        clientConfig: { service: { name: 'kueue-webhook-service', namespace: NAMESPACE, path } },
        objectSelector: never,
      };
    });
    return { ...configuration, metadata: { name: `kueue-${configuration.metadata.name}` }, webhooks };
  });
}

const documents = (file: string): Draft[] =>
  parseAllDocuments(readFileSync(file, 'utf8'))
    .map((d) => d.toJS() as Draft | null)
    .filter((d): d is Draft => d !== null);
