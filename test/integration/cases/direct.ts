import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:https';
import type { Operation } from 'rfc6902';
import type { Draft } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import { NS } from '../webhook/ground.js';

const CONFIGURATION = 'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration';

/** One answer of the webhook to a review that did not come from the API server. */
export interface Reply {
  allowed: boolean;
  patch: Operation[];
  /** Milliseconds from the first byte sent to the last one received. */
  ms: number;
}

/** Sends AdmissionReviews as the API server does, to see patches as they are and to send more at once than it would. */
export class Direct {
  readonly #url: URL;
  readonly #agent: Agent;

  private constructor(url: string, ca: string) {
    this.#url = new URL(url);
    this.#agent = new Agent({ keepAlive: true, maxSockets: 500, maxFreeSockets: 500, ca });
  }

  /** Trusts the authority that the replicas have written for the API server. */
  static async of(cluster: Cluster, url: string): Promise<Direct> {
    const { webhooks } = (await cluster.client.get(CONFIGURATION, 'harbinger')) as unknown as {
      webhooks: [{ clientConfig: { caBundle: string } }];
    };
    return new Direct(url, Buffer.from(webhooks[0].clientConfig.caBundle, 'base64').toString());
  }

  close(): void {
    this.#agent.destroy();
  }

  review(pod: Draft, ns = NS): Promise<Reply> {
    const body = JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: {
        uid: randomUUID(),
        kind: { group: '', version: 'v1', kind: 'Pod' },
        resource: { group: '', version: 'v1', resource: 'pods' },
        operation: 'CREATE',
        namespace: ns,
        name: pod.metadata.name ?? '',
        userInfo: { username: 'test' },
        object: pod,
        oldObject: null,
        dryRun: true,
        options: { apiVersion: 'meta.k8s.io/v1', kind: 'CreateOptions' },
      },
    });
    return new Promise((resolve, reject) => {
      const began = performance.now();
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const call = request(this.#url, { method: 'POST', agent: this.#agent, headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('error', reject);
        response.on('end', () => {
          const ms = performance.now() - began;
          const { response: answer } = JSON.parse(text) as { response: { allowed: boolean; patch?: string } };
          const patch =
            answer.patch === undefined ? [] : (JSON.parse(Buffer.from(answer.patch, 'base64').toString()) as Operation[]);
          resolve({ allowed: answer.allowed, patch, ms });
        });
      });
      call.on('error', reject);
      call.end(body);
    });
  }
}
