import type { LogLevel } from '../observe/log.js';

/** Flags that every long-running process takes; src/main.ts holds their defaults and doc lines. */
export interface ProcessOptions {
  /** Absent: KUBECONFIG, else the service account of the Pod. */
  kubeconfig?: string;
  /** Namespace of the installation: Leases, pullers, the Secret with the authority. */
  namespace: string;
  /** Path of the configuration file; defaults hold when absent. */
  config?: string;
  /** 0 picks a free port. */
  healthPort: number;
  logLevel: LogLevel;
  /** Name of this process in Leases and logs; differs between replicas. */
  identity: string;
}

export interface WebhookOptions extends ProcessOptions {
  port: number;
  /** DNS names and IP addresses under which the API server calls the webhook. */
  servingName: string[];
  /** Name of the MutatingWebhookConfiguration whose caBundle is kept. */
  webhookConfiguration: string;
  /** Secret with the certificate authority, in `namespace`. */
  caSecret: string;
  /** Milliseconds that a new certificate authority and a new server certificate are valid; each is replaced after two thirds. */
  caValidity: number;
  leafValidity: number;
  /** Milliseconds for which a replica that is going down still takes new connections. */
  drainDelay: number;
}

export interface ControllerOptions extends ProcessOptions {
  /** Image of the puller program; pinned by digest in production. */
  pullerImage: string;
  leaseName: string;
}
