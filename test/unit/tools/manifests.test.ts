import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { INSTALL } from '../../../src/api/names.js';
import { parseConfig } from '../../../src/config/load.js';
import { chartFiles } from '../../../tools/generate/chart.js';
import { EXAMPLE_CONFIG, defaultInstall, installObjects, manifestFiles } from '../../../tools/generate/manifests.js';
import type { Rule } from '../../../tools/generate/rbac.js';
import { GRANTS } from '../../../tools/generate/rbac.js';
import { toYaml } from '../../../tools/generate/yaml.js';

const objects = installObjects(defaultInstall('1.2.3'));
// As they stand in the file, so that the way through YAML is tested too.
const documents = parseAllDocuments(toYaml(objects)).map((document) => document.toJS());
const of = (kind: string) => documents.filter((o) => o.kind === kind);

describe('RBAC', () => {
  const rules: [string, Rule, 'cluster' | 'own'][] = GRANTS.flatMap((g) => [
    ...g.cluster.map((r): [string, Rule, 'cluster'] => [g.account, r, 'cluster']),
    ...g.own.map((r): [string, Rule, 'own'] => [g.account, r, 'own']),
  ]);

  test('has no wildcard', () => {
    expect(JSON.stringify(GRANTS)).not.toContain('*');
    expect(rules.length).toBeGreaterThan(10);
  });

  test('never writes nodes, Pods or another Secret than ours', () => {
    const writes = rules.filter(([, r]) => r.verbs.some((v) => !['get', 'list', 'watch'].includes(v)));
    expect(writes.filter(([, r]) => r.resources.some((x) => ['nodes', 'pods', 'namespaces'].includes(x)))).toEqual([]);
    for (const [, rule, where] of rules.filter(([, r]) => r.resources.includes('secrets'))) {
      expect(where).toBe('own');
      expect(rule.verbs).not.toContain('list');
      if (!rule.verbs.includes('create')) expect(rule.resourceNames).toEqual([INSTALL.caSecret]);
    }
  });

  test('gets secrets of other namespaces only by a role that is bound to nobody', () => {
    const role = of('ClusterRole').find((o) => o['metadata'].name === INSTALL.pullSecretsRole);
    expect(role?.['rules']).toEqual([{ apiGroups: [''], resources: ['secrets', 'serviceaccounts'], verbs: ['get'] }]);
    const bound = [...of('ClusterRoleBinding'), ...of('RoleBinding')].map((o) => o['roleRef'].name as string);
    // The control: the roles of webhook and controller are.
    expect(bound).toEqual(expect.arrayContaining([INSTALL.webhook, INSTALL.controller]));
    expect(bound).not.toContain(INSTALL.pullSecretsRole);
    expect(of('ClusterRole').map((o) => o['metadata'].name)).toContain(INSTALL.workloadPullersRole);
    expect(bound).not.toContain(INSTALL.workloadPullersRole);
  });

  test('patches jobs and Workloads, of which the watchdog writes the status only, by a role that is bound to nobody', () => {
    const role = of('ClusterRole').find((o) => o['metadata'].name === INSTALL.gatedJobsRole);
    const workloads = role?.['rules'].filter((r: Rule) => r.resources.includes('workloads'));
    expect(workloads).toEqual([{ apiGroups: ['kueue.x-k8s.io'], resources: ['workloads'], verbs: ['patch'] }]);
    const bound = [...of('ClusterRoleBinding'), ...of('RoleBinding')].map((o) => o['roleRef'].name as string);
    expect(bound).not.toContain(INSTALL.gatedJobsRole);
    const patches = rules.filter(([, r]) => r.resources.includes('workloads') && r.verbs.includes('patch'));
    expect(patches.map(([account]) => account)).toEqual([INSTALL.controller]);
  });

  test('creates DaemonSets in the namespace of the installation only', () => {
    const writes = rules.filter(([, r]) => r.resources.includes('daemonsets') && r.verbs.includes('create'));
    expect(writes.map(([, , where]) => where)).toEqual(['own']);
  });

  test('gives each account only its own Lease', () => {
    for (const [account, rule] of rules.filter(([, r]) => r.resources.includes('leases') && !r.verbs.includes('create'))) {
      expect(rule.resourceNames).toEqual([account === INSTALL.webhook ? INSTALL.watchdogLease : INSTALL.controllerLease]);
    }
  });
});

describe('webhook configuration', () => {
  const webhook = of('MutatingWebhookConfiguration')[0]?.['webhooks'][0];

  test('sees new Pods and what kubectl debug adds to them, fails open and answers in time', () => {
    expect(webhook).toMatchObject({
      failurePolicy: 'Ignore',
      timeoutSeconds: 3,
      sideEffects: 'None',
      matchPolicy: 'Equivalent',
      reinvocationPolicy: 'IfNeeded',
    });
    expect(webhook.rules).toEqual([
      { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'], scope: 'Namespaced' },
      {
        apiGroups: [''],
        apiVersions: ['v1'],
        resources: ['pods/ephemeralcontainers'],
        operations: ['UPDATE'],
        scope: 'Namespaced',
      },
    ]);
  });

  test('leaves the system and its own namespace out, and the bundle to its owner', () => {
    const excluded = webhook.namespaceSelector.matchExpressions.find((e: { operator: string }) => e.operator === 'NotIn');
    expect(excluded.values).toEqual(expect.arrayContaining(['kube-system', INSTALL.namespace]));
    expect(webhook.clientConfig).not.toHaveProperty('caBundle');
  });
});

describe('Pods of the installation', () => {
  const pods = of('Deployment').map((d) => d['spec'].template.spec);

  test('fit the restricted level and have bounded memory', () => {
    expect(pods).toHaveLength(2);
    for (const pod of pods) {
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      const [container] = pod.containers;
      expect(container.securityContext).toMatchObject({ allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } });
      expect(container.resources.limits).toHaveProperty('memory');
      expect(container.image).not.toMatch(/:latest$/);
    }
  });

  test('selectors match the labels of the Pods that they mean', () => {
    for (const d of of('Deployment')) expect(d['spec'].template.metadata.labels).toMatchObject(d['spec'].selector.matchLabels);
    const webhook = of('Deployment').find((d) => d['metadata'].name === INSTALL.webhook);
    expect(webhook?.['spec'].template.metadata.labels).toMatchObject(of('Service')[0]?.['spec'].selector);
  });

  test('see the Secret of registries as files if there is one, and start without it', () => {
    for (const pod of pods) {
      const [mount] = pod.containers[0].volumeMounts.filter((m: { name: string }) => m.name === 'registries');
      expect(mount).toEqual({ name: 'registries', mountPath: '/etc/harbinger-registries', readOnly: true });
      expect(pod.volumes).toContainEqual({
        name: 'registries',
        secret: { secretName: INSTALL.registriesSecret, optional: true },
      });
      // A mount below that of the ConfigMap would need a directory in a read-only volume.
      expect(
        pod.containers[0].volumeMounts.filter((m: { mountPath: string }) => mount.mountPath.startsWith(`${m.mountPath}/`)),
      ).toEqual([]);
    }
  });

  test('the files and the Secret that the page on configuration shows are those', () => {
    const page = readFileSync('docs/spec/config.md', 'utf8');
    const shown = parseConfig(/```yaml\n(.*?)```/s.exec(page)?.[1] ?? '', 'docs/spec/config.md');
    const paths = shown.registries.flatMap((r) => [r.caFile, r.credential?.dockerConfigFile]);
    expect(paths).toEqual(['/etc/harbinger-registries/ca.crt', '/etc/harbinger-registries/.dockerconfigjson']);
    expect(shown.pullers.pullSecrets).toEqual([INSTALL.registriesSecret]);
    expect(page).toContain(`kubectl create secret generic ${INSTALL.registriesSecret} --namespace ${INSTALL.namespace}`);
  });

  test('the example configuration is valid', () => {
    expect(parseConfig(EXAMPLE_CONFIG, 'example').mode).toBe('On');
  });
});

test('every generated manifest is YAML with kind and name', () => {
  for (const { path, text } of manifestFiles('1.2.3').filter((f) => f.path !== 'manifests/kustomization.yaml')) {
    for (const document of parseAllDocuments(text)) {
      expect({ path, ...document.toJS() }).toMatchObject({ kind: expect.any(String), metadata: { name: expect.any(String) } });
    }
  }
});

describe('chart', () => {
  const files = chartFiles('1.2.3');
  const text = (name: string): string => files.find((f) => f.path.endsWith(name))?.text ?? '';

  test('asks only for values that values.yaml has', () => {
    const values = parseAllDocuments(text('values.yaml'))[0]?.toJS();
    const asked = files.flatMap((f) => [...f.text.matchAll(/\.Values\.([A-Za-z.]+)/g)].map((m) => m[1] ?? ''));
    expect(asked.length).toBeGreaterThan(5);
    for (const path of asked)
      expect({ path, value: path.split('.').reduce((v, key) => v?.[key], values) ?? 'missing' }).not.toMatchObject({
        value: path.startsWith('config.') ? 'never' : 'missing',
      });
  });

  test('holds every object of the plain manifests but the namespace', () => {
    const kinds = files
      .filter((f) => f.path.includes('/templates/'))
      .flatMap((f) => [...f.text.matchAll(/^kind: (\w+)$/gm)].map((m) => m[1]));
    for (const object of objects) expect(kinds).toContain(object.kind);
    expect(files.some((f) => f.text.includes('⟦'))).toBe(false);
  });
});
