import fc from 'fast-check';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import type { Draft } from '../../cluster/client.js';
import type { Container } from '../../fixtures/workloads/build.js';
import { JOB, owner, pod, run } from '../../fixtures/workloads/build.js';

const NAME = fc.stringMatching(/^[a-z]([a-z0-9-]{0,8}[a-z0-9])?$/);
const KEY = fc.oneof(
  NAME,
  NAME.map((n) => `example.com/${n}`),
  NAME.map((n) => `a.b-c.io/${n}_${n}`),
);
const VALUE = fc.oneof(fc.string({ maxLength: 30 }), fc.constantFrom('', '~1/~0', '"{}"', '\u{1f680}', 'null'));
const LABELS = fc.dictionary(KEY, NAME, { maxKeys: 3 });

/** Now and then what users should not write, and what means something to the webhook. */
const OURS = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  fc.record({ [ANNOTATION.decisions]: fc.oneof(VALUE, fc.json()) }),
  fc.record({ [ANNOTATION.accelerate]: fc.constantFrom('true', 'false', 'maybe') }),
  fc.record({ [ANNOTATION.skipContainers]: fc.constantFrom('c0', 'c1, i0', ',') }),
);

/** Fields of a container that the API server accepts in any combination. */
const FIELDS = fc.record(
  {
    command: fc.array(VALUE, { maxLength: 3 }),
    env: fc.uniqueArray(NAME, { maxLength: 3 }).map((names) => names.map((name) => ({ name, value: `$(${name})` }))),
    imagePullPolicy: fc.constantFrom('Always', 'IfNotPresent', 'Never'),
    resources: fc.record({
      limits: fc.record({ memory: fc.constantFrom('1Gi', '1.5e9', '2000000000'), 'nvidia.com/gpu': fc.constantFrom('1', '8') }),
    }),
    securityContext: fc.record({ privileged: fc.boolean(), runAsUser: fc.nat() }),
    ports: fc.constant([{ containerPort: 8080, name: 'http' }]),
    stdin: fc.boolean(),
    // Neither this API server nor ours knows it.
    fieldOfTheFuture: fc.constant({ deep: [1e21, 0.1] }),
  },
  { requiredKeys: [] },
);

const SPEC = fc.record(
  {
    restartPolicy: fc.constantFrom('Always', 'OnFailure', 'Never'),
    nodeSelector: LABELS,
    schedulerName: NAME,
    hostNetwork: fc.boolean(),
    terminationGracePeriodSeconds: fc.nat(600),
    schedulingGates: fc.uniqueArray(KEY, { maxLength: 2 }).map((names) => names.map((name) => ({ name }))),
    tolerations: fc.array(fc.record({ key: KEY, operator: fc.constant('Exists') }), { maxLength: 2 }),
    imagePullSecrets: fc.uniqueArray(NAME, { maxLength: 2 }).map((names) => names.map((name) => ({ name }))),
    volumes: fc.uniqueArray(NAME, { maxLength: 2 }).map((names) => names.map((name) => ({ name, emptyDir: {} }))),
    automountServiceAccountToken: fc.boolean(),
    enableServiceLinks: fc.boolean(),
  },
  { requiredKeys: [] },
);

const OWNER = fc.constantFrom(undefined, owner(JOB, 'job'), owner('example.com/v1/Thing', 'thing'));

function containers(prefix: string, image: fc.Arbitrary<string>, minLength: number): fc.Arbitrary<Container[]> {
  const one = fc.record({ image, fields: FIELDS, sidecar: fc.boolean() });
  return fc
    .array(one, { minLength, maxLength: 3 })
    .map((list) =>
      list.map(({ image: name, fields, sidecar }, i) =>
        run(`${prefix}${i}`, name, { ...fields, ...(sidecar && prefix === 'i' ? { restartPolicy: 'Always' } : {}) }),
      ),
    );
}

/** Pods that an API server may or may not accept, with images out of a list or made up. */
export function arbitraryPod(images: readonly string[]): fc.Arbitrary<Draft> {
  const image = fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...images) }, fc.string({ minLength: 1, maxLength: 20 }));
  return fc
    .record({
      named: fc.constantFrom('any', 'any-'),
      init: containers('i', image, 0),
      main: containers('c', image, 1),
      labels: fc.oneof(
        LABELS,
        LABELS.map((l) => ({ ...l, [LABEL.accelerated]: 'no' })),
      ),
      annotations: fc.option(
        fc.tuple(fc.dictionary(KEY, VALUE, { maxKeys: 3 }), OURS).map(([a, b]) => ({ ...a, ...b })),
        { nil: undefined },
      ),
      spec: SPEC,
      by: OWNER,
    })
    .map(({ named, init, main, labels, annotations, spec, by }) =>
      pod(named, main, { labels, init, spec, ...(annotations && { annotations }), ...(by && { owner: by }) }),
    );
}
