/** Size of a review, bytes: that of a training Pod with its managed fields. */
const REVIEW_BYTES = 7 * 1024;

/** An AdmissionReview for the creation of a Pod with these images, as an API server writes it. */
export function review(serial: number, namespace: string, images: readonly string[]): string {
  const hex = serial.toString(16).padStart(12, '0');
  const name = `train-worker-0-${serial}`;
  const text = (padding: number): string =>
    JSON.stringify({
      kind: 'AdmissionReview',
      apiVersion: 'admission.k8s.io/v1',
      request: {
        uid: `705ab4f5-6393-11e8-b7cc-${hex}`,
        kind: { group: '', version: 'v1', kind: 'Pod' },
        resource: { group: '', version: 'v1', resource: 'pods' },
        requestKind: { group: '', version: 'v1', kind: 'Pod' },
        requestResource: { group: '', version: 'v1', resource: 'pods' },
        name,
        namespace,
        operation: 'CREATE',
        userInfo: {
          username: 'system:serviceaccount:kube-system:job-controller',
          uid: '0f0c7d0e-8a0e-4b7a-9d35-1b1a0c1b2d3e',
          groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
        },
        object: pod(name, namespace, images, padding),
        oldObject: null,
        dryRun: false,
        options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
      },
    });
  return text(Math.max(0, REVIEW_BYTES - text(0).length));
}

function pod(name: string, namespace: string, images: readonly string[], padding: number): unknown {
  const env = Array.from({ length: 12 }, (_, i) => ({ name: `NCCL_SETTING_${i}`, value: `value-of-the-setting-${i}` }));
  const container = (image: string, i: number): unknown => ({
    name: i === 0 ? 'trainer' : `helper-${i}`,
    image,
    command: ['python', '-m', 'torch.distributed.run', '/workspace/train.py'],
    ...(i === 0 ? { env } : {}),
    resources: { limits: { cpu: '8', memory: '64Gi', 'nvidia.com/gpu': '8' }, requests: { cpu: '8', memory: '64Gi' } },
    volumeMounts: [
      { name: 'shm', mountPath: '/dev/shm' },
      { name: 'token', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' },
    ],
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: 'IfNotPresent',
  });
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      name,
      generateName: 'train-worker-0-',
      namespace,
      creationTimestamp: null,
      labels: { 'batch.kubernetes.io/job-name': 'train-worker-0', 'jobset.sigs.k8s.io/jobset-name': 'train', team: 'research' },
      annotations: { 'jobset.sigs.k8s.io/replicatedjob-name': 'worker', 'example.com/notes': 'x'.repeat(padding) },
      ownerReferences: [
        {
          apiVersion: 'batch/v1',
          kind: 'Job',
          name: 'train-worker-0',
          uid: '9b8a1f6e-0b7e-4f0e-8f57-2f4f5b8c9d10',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [
        {
          manager: 'kube-controller-manager',
          operation: 'Update',
          apiVersion: 'v1',
          fieldsType: 'FieldsV1',
          fieldsV1: {
            'f:metadata': {
              'f:annotations': { '.': {} },
              'f:generateName': {},
              'f:labels': { '.': {} },
              'f:ownerReferences': {},
            },
            'f:spec': {
              'f:containers': { 'k:{"name":"trainer"}': { '.': {}, 'f:image': {}, 'f:resources': { 'f:limits': {} } } },
            },
          },
        },
      ],
    },
    spec: {
      volumes: [
        { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '16Gi' } },
        { name: 'token', projected: { sources: [{ serviceAccountToken: { expirationSeconds: 3607, path: 'token' } }] } },
      ],
      containers: images.map(container),
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 30,
      nodeSelector: { 'cloud.example.com/accelerator': 'h100' },
      serviceAccountName: 'default',
      schedulerName: 'default-scheduler',
      tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
    },
    status: {},
  };
}
