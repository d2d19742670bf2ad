import type { Cluster } from './cluster.js';

export interface HarbingerOptions {
  webhookReplicas?: number;
}
export interface Harbinger {
  webhooks: unknown[];
}
export function installHarbinger(_cluster: Cluster, _options: HarbingerOptions): Promise<Harbinger> {
  return Promise.reject(new Error('not built yet'));
}
