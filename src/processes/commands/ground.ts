import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { FORMATS } from '../../api/kinds/acceleration-policy.js';
import type { Format } from '../../api/kinds/acceleration-policy.js';
import type { Ground } from '../../cli/ground.js';
import { readPolicies } from '../../cli/policies.js';
import type { HarbingerConfig } from '../../config/schema.js';
import type { RegistryPort } from '../../images/registry-port.js';
import type { NodeClasses } from '../../placement/node-classes.js';
import type { RegistryDeps } from '../../registry/index.js';
import { UsageError } from '../usage.js';

/** Flags that say what decisions go by; `explain` and `simulate` share them. */
export interface GroundFlags {
  policy?: string[];
  namespaceLabel?: Record<string, string>;
  platform?: string[];
  nodes?: string;
  assumeCapable?: string[];
  offline?: string;
  config?: string;
  dockerConfig?: string;
  kubeconfig?: string;
  context?: string;
  namespace?: string;
  installedIn: string;
}

export interface Opened {
  ground: Ground;
  port: RegistryPort;
  /** Namespace of Pods that name none: the given one, else that of the context, as for kubectl. */
  namespace: string;
  close: () => Promise<void>;
}

/** Facts and registries as the flags say: of a cluster where one is named, or where none is made up for and a kubeconfig is there. */
export async function openGround(flags: GroundFlags): Promise<Opened> {
  return (await useCluster(flags)) ? openCluster(flags) : openOffline(flags);
}

async function useCluster({ kubeconfig, context, policy = [], offline, nodes }: GroundFlags): Promise<boolean> {
  if (kubeconfig !== undefined || context !== undefined) return true;
  if (policy.length > 0 || offline !== undefined || nodes !== undefined) return false;
  if (process.env['KUBECONFIG'] || process.env['KUBERNETES_SERVICE_HOST']) return true;
  return access(join(homedir(), '.kube', 'config')).then(
    () => true,
    () => false,
  );
}

async function openCluster(flags: GroundFlags): Promise<Opened> {
  const [{ KubeClient }, { ClusterGround }, { loadConfig }, { VERSION }] = await Promise.all([
    import('../../kube/client.js'),
    import('../../cli/cluster-ground.js'),
    import('../../config/load.js'),
    import('../../version.js'),
  ]);
  const { context } = flags;
  const userAgent = `harbinger-cli/${VERSION}`;
  const client = await KubeClient.fromKubeconfig(flags.kubeconfig, { userAgent, ...(context === undefined ? {} : { context }) });
  try {
    const ground = await ClusterGround.read({
      client,
      installedIn: flags.installedIn,
      config: flags.config === undefined ? undefined : await loadConfig(flags.config),
      policies: flags.policy === undefined ? undefined : await readPolicies(flags.policy),
      nodes: nodesOf(flags),
      namespaceLabels: flags.namespaceLabel ?? {},
      assumptions: { platforms: flags.platform ?? [], capable: formatsOf(flags) },
      now: Date.now,
    });
    const registries = await openRegistries(flags, ground.configured ? ground : undefined);
    return {
      ground,
      port: registries.port,
      namespace: flags.namespace ?? client.namespace ?? 'default',
      close: async () => void (await Promise.all([registries.close(), client.close()])),
    };
  } catch (error) {
    await client.close();
    throw error;
  }
}

async function openOffline(flags: GroundFlags): Promise<Opened> {
  const [{ OfflineGround }, { loadConfig }] = await Promise.all([import('../../cli/offline.js'), import('../../config/load.js')]);
  const config = await loadConfig(flags.config);
  const ground = new OfflineGround({
    config,
    installedIn: flags.installedIn,
    policies: await readPolicies(flags.policy ?? []),
    namespaceLabels: flags.namespaceLabel ?? {},
    assumptions: { platforms: flags.platform ?? [], capable: formatsOf(flags) },
    classes: await nodesOf(flags)?.(config),
  });
  const registries = await openRegistries(flags, flags.config === undefined ? undefined : ground);
  return { ground, namespace: flags.namespace ?? 'default', ...registries };
}

function formatsOf({ assumeCapable = [] }: GroundFlags): Format[] {
  return assumeCapable.map((text) => {
    const format = FORMATS.find((known) => known === text);
    if (format === undefined) throw new UsageError(`--assume-capable ${text}: formats are ${FORMATS.join(', ')}`);
    return format;
  });
}

function nodesOf({ nodes }: GroundFlags): ((config: HarbingerConfig) => Promise<NodeClasses>) | undefined {
  if (nodes === undefined) return undefined;
  return async (config) => (await import('../../cli/nodes-file.js')).readNodes(nodes, config);
}

/**
 * Recorded answers, or the registries that the configuration lists; any, where nobody listed any.
 * @param configured the facts, where their configuration is that of somebody and not the default
 */
export async function openRegistries(
  flags: Pick<GroundFlags, 'offline' | 'config' | 'dockerConfig'>,
  configured: Pick<Ground, 'config' | 'notes'> | undefined,
): Promise<Pick<Opened, 'port' | 'close'>> {
  if (flags.offline !== undefined) {
    const { RecordedRegistry } = await import('../../cli/recorded-registry.js');
    return { port: await RecordedRegistry.read(flags.offline), close: () => Promise.resolve() };
  }
  const [{ createRegistry }, { AnyRegistry, localConfig }, deps] = await Promise.all([
    import('../../registry/index.js'),
    import('../../cli/registries.js'),
    registryDeps(),
  ]);
  if (configured === undefined) {
    const port = new AnyRegistry(deps, flags.dockerConfig);
    return { port, close: () => port.close() };
  }
  // Files that a configuration on this machine names are on this machine; those of a cluster's are not.
  const config =
    flags.config === undefined ? localConfig(configured.config, configured.notes, flags.dockerConfig) : configured.config;
  const port = createRegistry(config, deps);
  return { port, close: () => port.close() };
}

/** Warnings go to standard error: standard output is for programs that read it. */
export async function registryDeps(): Promise<RegistryDeps> {
  const [{ createLog }, { Metrics }, { systemClock }] = await Promise.all([
    import('../../observe/log.js'),
    import('../../observe/metrics.js'),
    import('../../observe/clock.js'),
  ]);
  return {
    log: createLog({ level: 'warn', name: 'harbinger', destination: process.stderr }),
    metrics: new Metrics(),
    clock: systemClock,
  };
}
