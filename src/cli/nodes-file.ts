import { record } from '../api/json.js';
import type { Json } from '../api/json.js';
import { INSTALL } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import type { HarbingerConfig } from '../config/schema.js';
import { resolveCapabilities, runtimeClassFacts } from '../placement/capability.js';
import type { RuntimeClassFacts } from '../placement/capability.js';
import { classify } from '../placement/classify.js';
import { parseNodeClasses } from '../placement/node-classes.js';
import type { NodeClasses } from '../placement/node-classes.js';
import { nodeFacts } from '../placement/node-facts.js';
import type { NodeFacts } from '../placement/node-facts.js';
import { readManifests } from './manifests.js';

/**
 * What webhooks would know of the nodes of a file: of the ConfigMap that the controller publishes, or of Nodes (and RuntimeClasses) as
 * `kubectl get nodes -o yaml` prints them, judged by the capabilities of the configuration. Throws where it holds neither.
 */
export async function readNodes(path: string, config: Pick<HarbingerConfig, 'capabilities' | 'nodes'>): Promise<NodeClasses> {
  const nodes: NodeFacts[] = [];
  const runtimeClasses = new Map<string, RuntimeClassFacts>();
  for await (const entry of readManifests(path, process.stdin)) {
    if ('problem' in entry) throw new Error(`${entry.problem.file}:${entry.problem.line ?? 1}: ${entry.problem.message}`);
    const { object, file } = entry.manifest;
    if (isNamed(object, 'ConfigMap', INSTALL.nodeClasses)) return published(object, file);
    if (isNamed(object, 'Node')) nodes.push(nodeFacts(object));
    if (isNamed(object, 'RuntimeClass')) runtimeClasses.set(object.metadata.name, runtimeClassFacts(object));
  }
  if (nodes.length === 0)
    throw new Error(
      `${path} holds neither Nodes nor the ConfigMap ${INSTALL.nodeClasses}; write kubectl get nodes -o yaml into it`,
    );
  const resolved = resolveCapabilities(config.capabilities, (name) => runtimeClasses.get(name));
  const keys = resolved.capabilities.flatMap(({ nodeSelector }) => Object.keys(nodeSelector));
  // The file tells of the moment at which it was written, and heartbeats are judged as of then.
  const now = Math.max(0, ...nodes.flatMap(({ conditions }) => Object.values(conditions ?? {})));
  const { lastingTaints } = config.nodes;
  const { tracked, classes, notes } = classify({ nodes, capabilities: resolved.capabilities, keys, lastingTaints, now });
  return {
    publishedAt: now,
    tracked,
    classes,
    capabilities: resolved.capabilities,
    quarantined: [],
    notes: [...resolved.notes, ...notes],
  };
}

function published(object: Json, file: string): NodeClasses {
  const classes = parseNodeClasses(object);
  if (classes === undefined)
    throw new Error(`${file}: ConfigMap ${INSTALL.nodeClasses} cannot be read by this version of Harbinger`);
  return classes;
}

function isNamed(object: Json, kind: string, name?: string): object is KubeObject & Json {
  const own = record(object['metadata'])?.['name'];
  return object['kind'] === kind && typeof own === 'string' && (name === undefined || own === name);
}
