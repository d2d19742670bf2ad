import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { KubeClient } from '../../../src/kube/client.js';
import { Reflector, type ReflectorOptions } from '../../../src/kube/reflector.js';
import { systemClock } from '../../../src/observe/clock.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Draft } from '../../cluster/client.js';
import { FaultProxy, type ProxiedRequest } from '../../cluster/faults/proxy.js';
import { writeKubeconfig } from '../../cluster/kubeconfig.js';
import { notYet, until } from '../../cluster/until.js';
import { keepLog, type LogLine } from '../../unit/kube/fake-clock.js';
import { CONFIG_MAPS } from './shared.js';

export interface Item {
  name: string;
  value: string | undefined;
}

export const configMap = (namespace: string, name: string, value: string): Draft => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace, name },
  data: { value },
});

export const isWatch = ({ watch, url }: ProxiedRequest): boolean => watch && url.pathname.endsWith('/configmaps');
export const isList = ({ watch, url, method }: ProxiedRequest): boolean =>
  !watch && method === 'GET' && url.pathname.endsWith('/configmaps');

/** A real API server, a fault proxy before it, and a service account that may use ConfigMaps and Leases of its namespace. */
export class Ground {
  readonly cluster: Cluster;
  readonly proxy: FaultProxy;
  readonly #following: { reflector: Reflector<Item>; client: KubeClient }[] = [];
  #serial = 0;

  private constructor(cluster: Cluster, proxy: FaultProxy) {
    this.cluster = cluster;
    this.proxy = proxy;
  }

  static async start(): Promise<Ground> {
    // Compaction every two seconds instead of five minutes: continue tokens expire while a test looks on.
    const flags = { 'kube-apiserver': ['--etcd-compaction-interval=2s'] };
    const cluster = await Cluster.start({ name: 'it-kube', registry: false, flags, say: () => undefined });
    const serving = cluster.pki.issue({ commonName: 'fault-proxy', addresses: ['127.0.0.1'] });
    return new Ground(cluster, await FaultProxy.start(cluster.apiServer, cluster.pki.caCert, serving));
  }

  async stop(): Promise<void> {
    await this.release();
    await this.proxy.stop();
    await this.cluster.stop();
  }

  /** A fresh namespace with a service account `tester`, without rights unless `rights`. */
  async namespace(rights = true): Promise<string> {
    const name = `ns-${this.#serial++}`;
    await this.cluster.client.apply([
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'tester', namespace: name } },
    ]);
    if (rights) await this.grant(name);
    return name;
  }

  async grant(namespace: string): Promise<void> {
    const all = ['get', 'list', 'watch', 'create', 'patch', 'delete'];
    const rules = [
      { apiGroups: [''], resources: ['configmaps'], verbs: all },
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: all },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: all },
      { apiGroups: ['test.harbinger.dev'], resources: ['widgets'], verbs: all },
    ];
    await this.cluster.client.apply([
      { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { namespace, name: 'tester' }, rules },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { namespace, name: 'tester' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'tester' },
        subjects: [{ kind: 'ServiceAccount', name: 'tester', namespace }],
      },
    ]);
  }

  /** Path of a kubeconfig of the namespace's `tester`, through the proxy or straight to the API server. */
  async kubeconfig(namespace: string, way: 'proxy' | 'direct'): Promise<string> {
    const direct = await this.cluster.kubeconfigFor('tester', namespace);
    if (way === 'direct') return direct;
    const [user] = (parse(readFileSync(direct, 'utf8')) as { users: [{ user: { token: string } }] }).users;
    const { token } = user.user;
    return writeKubeconfig(
      join(this.cluster.runDir, `${namespace}-proxy.kubeconfig`),
      { url: this.proxy.url, ca: this.cluster.pki.caCert },
      { token },
    );
  }

  async client(namespace: string, way: 'proxy' | 'direct' = 'proxy'): Promise<KubeClient> {
    return KubeClient.fromKubeconfig(await this.kubeconfig(namespace, way), { userAgent: `kube-test-${way}` });
  }

  /** Follows the ConfigMaps of a namespace through the proxy. */
  async follow(
    namespace: string,
    options: Partial<ReflectorOptions<Item>> = {},
  ): Promise<{ reflector: Reflector<Item>; lines: LogLine[] }> {
    const client = await this.client(namespace);
    const { log, lines } = keepLog();
    const reflector = new Reflector<Item>({
      client,
      resource: CONFIG_MAPS,
      namespace,
      project: (raw) => ({ name: raw.metadata.name, value: (raw['data'] as { value?: string } | undefined)?.value }),
      clock: systemClock,
      log,
      ...options,
    });
    this.#following.push({ reflector, client });
    reflector.start();
    return { reflector, lines };
  }

  /** Stops what `follow` started. */
  async release(): Promise<void> {
    for (const { reflector, client } of this.#following.splice(0)) {
      await reflector.stop();
      await client.close();
    }
  }

  async write(namespace: string, name: string, value: string): Promise<void> {
    await this.cluster.client.apply(configMap(namespace, name, value));
  }

  /** Waits until the cache holds this value of this ConfigMap. */
  seen(reflector: Reflector<Item>, key: string, value: string | undefined, timeoutMs = 30_000): Promise<true> {
    return until(
      `the cache to hold ${key}=${value}`,
      () =>
        reflector.get(key)?.value === value ||
        notYet({ held: reflector.get(key), problem: reflector.problem, lastContactMs: reflector.lastContactMs }),
      { timeoutMs },
    );
  }
}
