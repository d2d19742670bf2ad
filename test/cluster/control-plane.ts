import { existsSync, mkdirSync, mkdtempSync, accessSync, constants, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ClusterClient } from './client.js';
import { writeKubeconfig } from './kubeconfig.js';
import { leasePorts } from './leases.js';
import { Pki, tokenKeyPair } from './pki.js';
import type { Supervisor } from './supervisor/client.js';
import { MEMORY_DIR_PREFIX } from './supervisor/protocol.js';
import { notYet, until } from './until.js';

/** More flags for single components, e.g. {'kube-controller-manager': ['--node-monitor-grace-period=10s']}. */
export type ExtraFlags = Readonly<
  Partial<Record<'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler', readonly string[]>>
>;

export interface ControlPlane {
  url: string;
  pki: Pki;
  /** Path of the cluster-admin kubeconfig. */
  kubeconfig: string;
  auditLog: string;
  /** Writes a kubeconfig for a certificate of this user and returns its path. */
  kubeconfigForUser(commonName: string, organizations: readonly string[]): string;
}

interface Options {
  supervisor: Supervisor;
  tools: Readonly<Record<string, string>>;
  /** Where the API server listens: loopback, or the bridge that real nodes reach. */
  address: string;
  flags?: ExtraFlags;
}

const SERVICE_CIDR = '10.96.0.0/16';
const SERVICE_IP = '10.96.0.1';

// Metadata of each request, once: RequestReceived would double the log and has no response code yet.
const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata' }],
};

/** Starts etcd, API server, controller-manager and scheduler under the supervisor; resolves when /readyz says ok. */
export async function startControlPlane({ supervisor, tools, address, flags = {} }: Options): Promise<ControlPlane> {
  const { runDir, logDir } = supervisor.state;
  const [etcdPort = 0, peerPort = 0, apiPort = 0, managerPort = 0, schedulerPort = 0] = await leasePorts(5, supervisor.identity);
  const url = `https://${address}:${apiPort}`;
  const start = (name: keyof ExtraFlags, args: string[]): Promise<unknown> =>
    supervisor.spawn({ name, command: tools[name] ?? name, args: [...args, ...(flags[name] ?? [])] });

  await start('etcd', [
    `--data-dir=${await etcdDataDir(supervisor)}`,
    `--listen-client-urls=http://127.0.0.1:${etcdPort}`,
    `--advertise-client-urls=http://127.0.0.1:${etcdPort}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
    // A test's data does not have to survive a power cut, and fsync is what makes etcd slow on a busy disk.
    '--unsafe-no-fsync',
    '--log-level=warn',
  ]);
  const pki = await Pki.create('harbinger-test-ca');
  const files = await writeFiles(pki, runDir, address);
  const server = { url, ca: pki.caCert };
  const kubeconfigForUser = (commonName: string, organizations: readonly string[]): string => {
    const path = join(runDir, `${commonName.replace(/[^a-z0-9-]/gi, '-')}.kubeconfig`);
    return writeKubeconfig(path, server, pki.issue({ commonName, organizations }));
  };
  const kubeconfig = kubeconfigForUser('admin', ['system:masters']);
  const auditLog = join(logDir, 'audit.log');
  await start('kube-apiserver', [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    `--bind-address=${address}`,
    `--secure-port=${apiPort}`,
    // An API server refuses to advertise loopback; where nothing dials the address, any other does.
    `--advertise-address=${address === '127.0.0.1' ? '192.0.2.1' : address}`,
    `--tls-cert-file=${files.serving.cert}`,
    `--tls-private-key-file=${files.serving.key}`,
    `--client-ca-file=${files.ca}`,
    `--kubelet-client-certificate=${files.kubelet.cert}`,
    `--kubelet-client-key=${files.kubelet.key}`,
    `--kubelet-preferred-address-types=InternalIP`,
    `--service-account-issuer=https://kubernetes.default.svc`,
    `--service-account-key-file=${files.accountPublicKey}`,
    `--service-account-signing-key-file=${files.accountKey}`,
    `--service-cluster-ip-range=${SERVICE_CIDR}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    '--enable-aggregator-routing=true',
    `--audit-policy-file=${files.auditPolicy}`,
    `--audit-log-path=${auditLog}`,
    // One file for the whole run: a test that reads it must not lose events to a rotation.
    '--audit-log-maxsize=10000',
    '--profiling=false',
  ]);
  // The controller manager ends for good when it has waited ten seconds for a healthy API server, which is too little on a busy machine.
  await untilApiServerReady(supervisor, kubeconfig);
  await start('kube-controller-manager', [
    `--kubeconfig=${kubeconfigForUser('system:kube-controller-manager', [])}`,
    `--service-account-private-key-file=${files.accountKey}`,
    `--root-ca-file=${files.ca}`,
    `--use-service-account-credentials=true`,
    '--bind-address=127.0.0.1',
    `--secure-port=${managerPort}`,
    '--leader-elect=false',
    '--concurrent-job-syncs=10',
  ]);
  await start('kube-scheduler', [
    `--kubeconfig=${kubeconfigForUser('system:kube-scheduler', [])}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${schedulerPort}`,
    '--leader-elect=false',
  ]);
  return { url, pki, kubeconfig, auditLog, kubeconfigForUser };
}

/** Resolves when /readyz of the API server says ok; fails at once when the process has exited. */
export async function untilApiServerReady(supervisor: Supervisor, kubeconfig: string): Promise<void> {
  const client = new ClusterClient(kubeconfig);
  try {
    await until(
      'the API server to be ready',
      async () => {
        await supervisor.mustRun('etcd');
        await supervisor.mustRun('kube-apiserver');
        const answer = await client.request('GET', '/readyz');
        return answer === 'ok' || notYet(answer);
      },
      { timeoutMs: 90_000 },
    );
  } finally {
    client.close();
  }
}

/** A folder with links to all tools: containerd looks for its shim on PATH, and nodes want one folder. */
export function linkTools(runDir: string, tools: Readonly<Record<string, string>>): string {
  const bin = join(runDir, 'bin');
  mkdirSync(bin, { recursive: true });
  for (const [name, path] of Object.entries(tools)) if (!existsSync(join(bin, name))) symlinkSync(path, join(bin, name));
  return bin;
}

// In memory where the system has a place for it; the state file names it, so that teardown removes it.
async function etcdDataDir(supervisor: Supervisor): Promise<string> {
  try {
    accessSync('/dev/shm', constants.W_OK);
  } catch {
    return join(supervisor.state.runDir, 'etcd');
  }
  const memoryDir = mkdtempSync(MEMORY_DIR_PREFIX);
  await supervisor.describe({ memoryDir });
  return memoryDir;
}

interface Files {
  ca: string;
  serving: { cert: string; key: string };
  kubelet: { cert: string; key: string };
  accountKey: string;
  accountPublicKey: string;
  auditPolicy: string;
}

async function writeFiles(pki: Pki, runDir: string, address: string): Promise<Files> {
  const write = (name: string, text: string): string => {
    const path = join(runDir, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const names = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost', '127.0.0.1', SERVICE_IP, address];
  const serving = pki.issue({ commonName: 'kube-apiserver', addresses: [...new Set(names)] });
  const kubelet = pki.issue({ commonName: 'kube-apiserver-kubelet-client', organizations: ['system:masters'] });
  const account = await tokenKeyPair();
  return {
    ca: write('ca.crt', pki.caCert),
    serving: { cert: write('apiserver.crt', serving.cert), key: write('apiserver.key', serving.key) },
    kubelet: { cert: write('kubelet-client.crt', kubelet.cert), key: write('kubelet-client.key', kubelet.key) },
    accountKey: write('service-account.key', account.privateKey),
    accountPublicKey: write('service-account.pub', account.publicKey),
    auditPolicy: write('audit-policy.yaml', stringify(AUDIT_POLICY)),
  };
}
