import { GROUP, KINDS, VERSION } from '../../src/api/kinds/index.js';
import { PART_OF } from './labels.js';
import type { Schema } from './structural.js';
import { toStructural } from './structural.js';
import type { Manifest } from './yaml.js';

type Kind = (typeof KINDS)[number];

/** The CustomResourceDefinition of one kind, whole: nothing in it is written by hand. */
export function crdOf(kind: Kind): Manifest {
  const spec = toStructural(kind.spec);
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${GROUP}`, labels: PART_OF },
    spec: {
      group: GROUP,
      scope: kind.scope,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.kind.toLowerCase(),
        shortNames: kind.shortNames,
        // `kubectl get harbinger` shows everything of ours.
        categories: ['harbinger'],
      },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: kind.columns,
          schema: { openAPIV3Schema: root(kind, spec) },
        },
      ],
    },
  };
}

function root(kind: Kind, spec: Schema): Schema {
  return {
    type: 'object',
    description: kind.description,
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec,
      status: toStructural(kind.status),
    },
  };
}

/** File name and object of every CRD. */
export function crds(): { file: string; object: Manifest }[] {
  return KINDS.map((kind) => ({ file: `manifests/crds/${kind.plural}.yaml`, object: crdOf(kind) }));
}
