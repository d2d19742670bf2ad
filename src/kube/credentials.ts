import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { KubeConfig } from '@kubernetes/client-node';
import { KubeError } from './errors.js';

/** How a connection proves who it is and whom it trusts. */
export interface Tls {
  ca?: string;
  cert?: string;
  key?: string;
  servername?: string;
  rejectUnauthorized?: boolean;
}

export interface Identity {
  headers: Record<string, string>;
  tls: Tls;
  /** Equal for equal `tls`: new connections are needed only when it changes. */
  fingerprint: string;
}

type Cluster = NonNullable<ReturnType<KubeConfig['getCurrentCluster']>>;
type User = NonNullable<ReturnType<KubeConfig['getCurrentUser']>>;

/** Bound service account tokens live an hour and are renewed at 80 %; client-go looks at the file as often. */
const REREAD_MS = 60_000;

/**
 * Who we are towards the API server, kept fresh: token, CA and client certificate files are read again at most 60 s after the
 * last time, exec plugins are asked when their answer expires, and `renew` starts from the kubeconfig once more.
 */
export class Credentials {
  readonly server: string;
  readonly proxyUrl: string | undefined;
  /** Namespace of the context. */
  readonly namespace: string | undefined;
  readonly #path: string | undefined;
  readonly #context: string | undefined;
  readonly #now: () => number;
  #config: KubeConfig;
  #identity: Identity | undefined;
  #readAt = 0;
  #reading: Promise<Identity> | undefined;

  private constructor(config: KubeConfig, { path, context }: Place, now: () => number) {
    const cluster = clusterOf(config, path);
    this.#path = path;
    this.#context = context;
    this.#config = config;
    this.#now = now;
    this.server = cluster.server;
    this.proxyUrl = cluster.proxyUrl;
    this.namespace = config.getContextObject(config.getCurrentContext())?.namespace || undefined;
  }

  /**
   * Reads the kubeconfig at `path`, or what KUBECONFIG, ~/.kube/config or the Pod's service account offer, in this order.
   * `context` is that of the file when absent.
   */
  static async load(path: string | undefined, now: () => number = Date.now, context?: string): Promise<Credentials> {
    const place = { path, context };
    return new Credentials(await loadConfig(place), place, now);
  }

  async current(): Promise<Identity> {
    if (this.#identity !== undefined && this.#now() - this.#readAt < REREAD_MS) return this.#identity;
    return this.#read();
  }

  /** After a 401: reads everything again, the kubeconfig and a plugin's cached answer included. */
  async renew(): Promise<Identity> {
    // Half-written kubeconfigs happen to those who write them without a rename; what was read before may still do.
    this.#config = await loadConfig({ path: this.#path, context: this.#context }).catch(() => this.#config);
    return this.#read();
  }

  /** Calls that find the identity stale at once share one reading. */
  #read(): Promise<Identity> {
    this.#reading ??= readIdentity(this.#config)
      .then((identity) => {
        this.#identity = identity;
        return identity;
      })
      .catch((error: unknown) => {
        // A file in the middle of being replaced is no reason to fail a call: the old token is still valid for minutes.
        if (this.#identity !== undefined) return this.#identity;
        throw new KubeError(`cannot get credentials for ${this.server}: ${(error as Error).message}`, {
          status: 0,
          reason: 'Credentials',
          cause: error,
        });
      })
      .finally(() => {
        this.#readAt = this.#now();
        this.#reading = undefined;
      });
    return this.#reading;
  }
}

interface Place {
  path: string | undefined;
  context: string | undefined;
}

async function loadConfig({ path, context }: Place): Promise<KubeConfig> {
  // Only this module of client-node is needed; its index pulls in 800 generated classes. `explain` never gets here.
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js');
  const config = new KubeConfig();
  try {
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
  } catch (error) {
    throw new Error(
      `cannot read the kubeconfig ${path ?? 'named by KUBECONFIG or ~/.kube/config'}: ${(error as Error).message}`,
      { cause: error },
    );
  }
  if (context !== undefined) {
    const known = config.getContexts().map(({ name }) => name);
    if (!known.includes(context))
      throw new Error(`the kubeconfig has no context ${JSON.stringify(context)}; it has ${known.join(', ') || 'none'}`);
    config.setCurrentContext(context);
  }
  return config;
}

function clusterOf(config: KubeConfig, path: string | undefined): Cluster {
  const cluster = config.getCurrentCluster();
  const where = path ?? 'the default kubeconfig';
  if (!cluster)
    throw new Error(
      `${where} names no cluster in its current context "${config.getCurrentContext()}"; set one with kubectl config use-context`,
    );
  // client-node's last resort when it found neither kubeconfig nor service account; talking to it would only hide that.
  if (path === undefined && cluster.server === 'http://localhost:8080')
    throw new Error('no kubeconfig and no service account found; give --kubeconfig, set KUBECONFIG or run in a Pod');
  return cluster;
}

async function readIdentity(config: KubeConfig): Promise<Identity> {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  const tls: Tls = {};
  const ca = await material(cluster?.caFile, cluster?.caData);
  if (ca !== undefined) tls.ca = ca;
  if (cluster?.tlsServerName) tls.servername = cluster.tlsServerName;
  if (cluster?.skipTLSVerify) tls.rejectUnauthorized = false;
  const headers = user ? await authenticate(config, user, tls) : {};
  if (user?.impersonateUser) headers['impersonate-user'] = user.impersonateUser;
  return { headers, tls, fingerprint: createHash('sha256').update(JSON.stringify(tls)).digest('hex') };
}

/** Adds a client certificate to `tls` where there is one, and gives the headers that carry the rest. */
async function authenticate(config: KubeConfig, user: User, tls: Tls): Promise<Record<string, string>> {
  const cert = await material(user.certFile, user.certData);
  const key = await material(user.keyFile, user.keyData);
  if (cert !== undefined) tls.cert = cert;
  if (key !== undefined) tls.key = key;
  const provider = user.authProvider as { config?: { tokenFile?: string } } | null | undefined;
  if (provider?.config?.tokenFile) return bearer((await readFile(provider.config.tokenFile, 'utf8')).trim());
  if (user.token) return bearer(user.token.trim());
  if (user.username)
    return { authorization: `Basic ${Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')}` };
  if (user.exec || provider) return askPlugin(config, tls);
  return {};
}

/** Exec plugins and OIDC are client-node's: it runs the program and remembers the answer until it expires. */
async function askPlugin(config: KubeConfig, tls: Tls): Promise<Record<string, string>> {
  const options: { headers?: Record<string, string>; cert?: string | Buffer; key?: string | Buffer } = {};
  await config.applyToHTTPSOptions(options);
  if (options.cert) tls.cert = String(options.cert);
  if (options.key) tls.key = String(options.key);
  const authorization = options.headers?.['Authorization'];
  return authorization === undefined ? {} : { authorization };
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

async function material(file: string | undefined, data: string | undefined): Promise<string | undefined> {
  if (data) return Buffer.from(data, 'base64').toString('utf8');
  return file ? readFile(file, 'utf8') : undefined;
}
