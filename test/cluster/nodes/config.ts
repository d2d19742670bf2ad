import { isCgroupV2 } from '../network/cgroups.js';
import { proxyPlugin, type Snapshotter } from './snapshotter.js';

/** Paths of one node. All state is below `state`, whose path is short because sockets live there. */
export interface NodePaths {
  state: string;
  config: string;
  socket: string;
}

/** containerd's configuration. What differs from its defaults does so for a node that is one of several on a machine, or for lack of privileges. */
export function containerdConfig(
  paths: NodePaths,
  o: { sandboxImage: string; cniBin: string; snapshotter: Snapshotter },
): string {
  const { plugin, cri } = proxyPlugin(paths, o.snapshotter);
  return `version = 4
root = '${paths.state}/containerd'
state = '${paths.state}/run'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.differ.v1.erofs',
  'io.containerd.image-verifier.v1.bindir']
${plugin}[plugins.'io.containerd.server.v1.grpc']
  address = '${paths.socket}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '${paths.socket}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '${paths.state}/opt'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '${paths.state}/s'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '${o.snapshotter}'
${cri}[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '${o.sandboxImage}'
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '${paths.config}/registries'
[plugins.'io.containerd.cri.v1.runtime']
  # Root without CAP_SYS_RESOURCE may not lower a score; AppArmor profiles belong to the machine.
  restrict_oom_score_adj = true
  disable_apparmor = true
  # Then everything a killed node leaves is below one folder.
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['${o.cniBin}']
  conf_dir = '${paths.config}/cni'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = '${paths.state}/runc'
`;
}

/** CNI: a bridge inside the node's namespace, addresses from the node's block. */
export function cniConfig(paths: NodePaths, podBlock: string): string {
  return JSON.stringify({
    cniVersion: '1.0.0',
    name: 'harbinger',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        ipMasq: false,
        ipam: {
          type: 'host-local',
          dataDir: `${paths.state}/cni`,
          ranges: [[{ subnet: podBlock }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
    ],
  });
}

export function hostsToml(registry: string): string {
  return `server = "http://${registry}"\n[host."http://${registry}"]\n  capabilities = ["pull", "resolve"]\n`;
}

/** The kubelet's configuration file (kubelet.config.k8s.io/v1beta1). JSON is YAML. */
export function kubeletConfig(
  paths: NodePaths,
  o: { address: string; cgroup: string; more?: Readonly<Record<string, unknown>> | undefined },
): string {
  return JSON.stringify({
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: o.address,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: `${paths.config}/ca.crt` },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: `${paths.config}/kubelet.crt`,
    tlsPrivateKeyFile: `${paths.config}/kubelet.key`,
    containerRuntimeEndpoint: `unix://${paths.socket}`,
    podLogsDir: `${paths.state}/pod-logs`,
    volumePluginDir: `${paths.state}/volume-plugins`,
    resolvConf: '',
    maxPods: 25,
    serializeImagePulls: false,
    makeIPTablesUtilChains: false,
    // One machine's processors and memory back several nodes: nothing is enforced between them, only accounted.
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${o.cgroup}`,
    enforceNodeAllocatable: [],
    ...(isCgroupV2() ? {} : { failCgroupV1: false }),
    failSwapOn: false,
    oomScoreAdj: 0,
    localStorageCapacityIsolation: false,
    // Tests fill the disk on purpose; the kubelet's own reaction to that would come on top.
    evictionHard: {
      'memory.available': '0%',
      'nodefs.available': '0%',
      'imagefs.available': '0%',
      'nodefs.inodesFree': '0%',
      'imagefs.inodesFree': '0%',
    },
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    ...o.more,
  });
}

export function kubeconfig(paths: NodePaths, server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'certificate-authority': `${paths.config}/ca.crt` } }],
    users: [
      { name: 'u', user: { 'client-certificate': `${paths.config}/kubelet.crt`, 'client-key': `${paths.config}/kubelet.key` } },
    ],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  });
}
