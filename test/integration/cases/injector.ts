import { createServer, type Server } from 'node:https';
import type { Draft } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';

const LABEL = 'injector.example/inject';

/** A mutating webhook of somebody else, called after ours, that adds a sidecar to labelled Pods which have none. */
export class Injector {
  readonly #server: Server;
  /** How often it was called. */
  calls = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(cluster: Cluster, image: string): Promise<Injector> {
    const server = createServer(cluster.pki.issue({ commonName: 'injector', addresses: ['127.0.0.1'] }));
    const injector = new Injector(server);
    server.on('request', (request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      request.on('end', () => {
        injector.calls++;
        const review = JSON.parse(text) as { request: { uid: string; object: { spec: { containers: { name: string }[] } } } };
        const { uid, object } = review.request;
        const there = object.spec.containers.some((c) => c.name === 'istio-proxy');
        const patch = there ? [] : [{ op: 'add', path: '/spec/containers/-', value: { name: 'istio-proxy', image } }];
        const body = { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') };
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({
            apiVersion: 'admission.k8s.io/v1',
            kind: 'AdmissionReview',
            response: { uid, allowed: true, ...(there ? {} : body) },
          }),
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    await cluster.client.apply(injector.#configuration(cluster));
    return injector;
  }

  get label(): Record<string, string> {
    return { [LABEL]: 'true' };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  // Webhooks are called in the order of the names of their configurations: this one comes after ours.
  #configuration(cluster: Cluster): Draft {
    const { port } = this.#server.address() as { port: number };
    return {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: { name: 'injector' },
      webhooks: [
        {
          name: 'injector.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          failurePolicy: 'Fail',
          reinvocationPolicy: 'IfNeeded',
          objectSelector: { matchLabels: { [LABEL]: 'true' } },
          clientConfig: { url: `https://127.0.0.1:${port}/inject`, caBundle: Buffer.from(cluster.pki.caCert).toString('base64') },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
        },
      ],
    };
  }
}
