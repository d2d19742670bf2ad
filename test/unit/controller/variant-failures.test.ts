import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { projectAccelerated, QUARANTINE_MS, VariantFailures } from '../../../src/controller/images/variant-failures.js';
import type { RawObject } from '../../../src/kube/reflector.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { variantKey } from '../../../src/placement/quarantine.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { T0 } from './fixtures.js';

const VARIANT = `reg.example.com/train@sha256:${'a'.repeat(64)}`;
const SOURCE = 'reg.example.com/train:v1';
const GONE = `failed to pull and unpack image "${VARIANT}": failed to resolve reference: not found`;
const decision = (change: object = {}): object => ({
  container: 'train',
  source: SOURCE,
  outcome: 'accelerated',
  image: VARIANT,
  format: 'nydus',
  ...change,
});

interface Shape {
  decisions?: unknown;
  image?: string;
  waiting?: object;
  namespace?: string;
  spec?: object;
}
function pod({
  decisions = [decision()],
  image = VARIANT,
  waiting = { reason: 'ErrImagePull', message: GONE },
  namespace = 'team',
  spec = {},
}: Shape = {}): RawObject {
  const text = typeof decisions === 'string' ? decisions : JSON.stringify(decisions);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace, annotations: { 'harbinger.dev/decisions': text } },
    spec: { containers: [{ name: 'train', image }], ...spec },
    status: { containerStatuses: [{ name: 'train', state: { waiting } }] },
  };
}

describe('what a Pod shows of a variant that a node cannot pull', () => {
  const rows: [string, Shape, string | undefined][] = [
    ['the registry does not have it', {}, 'ImageNotFound'],
    [
      'while the kubelet backs off',
      { waiting: { reason: 'ImagePullBackOff', message: `Back-off pulling image: ErrImagePull: ${GONE}` } },
      'ImageNotFound',
    ],
    [
      'the node cannot read the format',
      { waiting: { reason: 'ErrImagePull', message: 'failed to extract layer: no processor for media-type' } },
      'FormatUnreadable',
    ],
    [
      'the store of the node lost what another snapshotter needs',
      {
        waiting: {
          reason: 'ErrImagePull',
          message: `failed to pull and unpack image "x": content digest sha256:${'d'.repeat(64)}: not found`,
        },
      },
      'ImageStoreConflict',
    ],
    ['the credentials of the Pod do not serve', { waiting: { reason: 'ErrImagePull', message: '403 Forbidden' } }, 'AuthDenied'],
    ['it is still being made', { waiting: { reason: 'ContainerCreating', message: GONE } }, undefined],
    ['it crashes, which is not about pulling', { waiting: { reason: 'CrashLoopBackOff', message: GONE } }, undefined],
    ['it runs', { waiting: {} }, undefined],
    ['the failing image is not ours', { image: SOURCE }, undefined],
    ['the decision left the image', { decisions: [decision({ outcome: 'variant-missing' })] }, undefined],
    ['the decision is about another container', { decisions: [decision({ container: 'other' })] }, undefined],
    ['the annotation is no JSON', { decisions: '{' }, undefined],
    ['the annotation is no list', { decisions: { container: 'train' } }, undefined],
  ];
  test.each(rows)('%s', (_title, shape, reason) => {
    expect(projectAccelerated(pod(shape)).failures.map((f) => f.reason)).toEqual(reason === undefined ? [] : [reason]);
  });
  test('a format that nobody knows is not taken as a label of a metric', () => {
    expect(projectAccelerated(pod({ decisions: [decision({ format: 'x'.repeat(1000) })] })).failures[0]?.format).toBe('unknown');
  });
  test('the variant of an image volume is blamed, not the container that waits for it', () => {
    const volume = `reg.example.com/data@sha256:${'b'.repeat(64)}`;
    const decisions = [decision(), decision({ container: 'volume/data', image: volume })];
    const spec = { volumes: [{ name: 'data', image: { reference: volume } }] };
    const waiting = { reason: 'ErrImagePull', message: `failed to pull "${volume}": not found` };
    expect(projectAccelerated(pod({ decisions, spec, waiting })).failures.map((f) => f.image)).toEqual([volume]);
  });
  const LONG = 'x'.repeat(200_000);
  const foreign: [string, string][] = [
    ['a text of 200 KB', LONG],
    ['a name of 200 KB', `reg.example.com/${LONG}`],
    ['a tag of 200 KB', `reg.example.com/train:${LONG}`],
    ['a text that is no reference', 'reg.example.com/Train Station'],
    ['nothing', ''],
  ];
  test.each(foreign)('an image that the webhook cannot have written is not ours: %s', (_title, image) => {
    expect(projectAccelerated(pod({ image, decisions: [decision({ image })] })).failures).toEqual([]);
    const spec = { volumes: [{ name: 'data', image: { reference: image } }] };
    const waiting = { reason: 'ErrImagePull', message: `failed to pull "${image}": not found` };
    const decisions = [decision({ container: 'volume/data', image })];
    expect(projectAccelerated(pod({ decisions, spec, waiting })).failures).toEqual([]);
  });
  test('the words of a registry are cut, and take a byte or two each', () => {
    const waiting = { reason: 'ErrImagePull', message: `not found: ${'\u0000\u{1f4a3}"'.repeat(100_000)}` };
    const [failure] = projectAccelerated(pod({ waiting })).failures;
    expect(JSON.stringify(failure?.message).length).toBeLessThanOrEqual(2 * 256 + 2);
    expect(failure?.message).toMatch(/^not found: \?\?\?"/);
  });
  test('of a Pod with a thousand failing containers a few are kept', () => {
    const names = Array.from({ length: 1000 }, (_, i) => `c${i}`);
    const failing = pod({ decisions: names.map((container) => decision({ container })) });
    const raw = {
      ...failing,
      spec: { containers: names.map((name) => ({ name, image: VARIANT })) },
      status: {
        containerStatuses: names.map((name) => ({ name, state: { waiting: { reason: 'ErrImagePull', message: GONE } } })),
      },
    };
    expect(projectAccelerated(raw).failures).toHaveLength(20);
  });
  test('nothing in an annotation or a status makes the reader throw', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (decisions, status) => {
        projectAccelerated({ ...pod({ decisions }), status: status });
        projectAccelerated(pod({ decisions, waiting: status as never }));
      }),
    );
  });
});

function start(leading = true) {
  const [clock, metrics] = [new FakeClock(T0), new Metrics()];
  const { log, lines } = keepLog();
  return { clock, metrics, lines, failures: new VariantFailures({ clock, metrics, log, leading: () => leading }) };
}
const counted = async (metrics: Metrics): Promise<string[]> =>
  (await metrics.text()).split('\n').filter((l) => l.startsWith('harbinger_variant_pull_failures_total') && !l.endsWith(' 0'));
const failing = (message = GONE, namespace = 'team', image = VARIANT) =>
  projectAccelerated(pod({ waiting: { reason: 'ErrImagePull', message }, namespace, image, decisions: [decision({ image })] }));

describe('the quarantine', () => {
  test('holds a variant for half an hour after the latest failure, for that namespace', async () => {
    const { failures, clock } = start();
    expect(failures.note(failing(), undefined)).toBe(true);
    await clock.advance(10 * 60_000);
    expect(failures.note(failing(), failing())).toBe(false);
    await clock.advance(QUARANTINE_MS - 1);
    expect(failures.list()).toMatchObject([
      { namespace: 'team', variant: VARIANT.split('@')[1], reason: 'ImageNotFound', format: 'nydus' },
    ]);
    await clock.advance(1);
    expect(failures.list()).toEqual([]);
  });
  const blamed: [string, string, boolean][] = [
    ['absent', GONE, true],
    ['denied to the credentials of the namespace', '403 Forbidden', true],
    ['failing in a way that is not recognised', 'something new', true],
    ['not to be had because the registry is down: so is the plain image', 'connection refused', false],
    ['too big for the disk: so is the plain image', 'no space left on device', false],
  ];
  test.each(blamed)('of a variant that is %s', (_title, message, held) => {
    const { failures } = start();
    failures.note(failing(message), undefined);
    expect(failures.list()).toHaveLength(held ? 1 : 0);
  });
  test('counts each failure of a Pod once, by format and reason', async () => {
    const { failures, metrics } = start();
    failures.note(failing(), undefined);
    failures.note(failing(), failing());
    failures.note(failing('403 Forbidden'), failing());
    expect(await counted(metrics)).toEqual([
      'harbinger_variant_pull_failures_total{format="nydus",reason="AuthDenied"} 1',
      'harbinger_variant_pull_failures_total{format="nydus",reason="ImageNotFound"} 1',
    ]);
  });
  test('is kept by replicas that do not lead, which count nothing', async () => {
    const { failures, metrics } = start(false);
    failures.note(failing(), undefined);
    expect([failures.list().length, await counted(metrics)]).toEqual([1, []]);
  });
  test('is bounded, and one namespace cannot push out what others need', () => {
    const { failures } = start();
    const image = (i: number): string => `reg.example.com/x@sha256:${String(i).padStart(64, '0')}`;
    failures.note(failing(GONE, 'quiet'), undefined);
    for (let i = 0; i < 1000; i++) failures.note(failing(GONE, 'loud', image(i)), undefined);
    const held = failures.list();
    expect(held.filter((q) => q.namespace === 'loud')).toHaveLength(20);
    expect(held.filter((q) => q.namespace === 'quiet')).toHaveLength(1);
    for (let i = 0; i < 500; i++) failures.note(failing(GONE, `n${i}`), undefined);
    expect(failures.list()).toHaveLength(200);
  });
  test('is shared alike when it is full: many namespaces with many failures leave room for one with few', () => {
    const { failures } = start();
    const image = (i: number): string => `reg.example.com/x@sha256:${String(i).padStart(64, '0')}`;
    const held = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { namespace } of failures.list()) counts[namespace] = (counts[namespace] ?? 0) + 1;
      return counts;
    };
    for (let i = 0; i < 5; i++) failures.note(failing(GONE, 'quiet', image(i)), undefined);
    for (let n = 0; n < 30; n++) for (let i = 0; i < 20; i++) failures.note(failing(GONE, `loud${n}`, image(i)), undefined);
    const counts = held();
    expect(counts['quiet']).toBe(5);
    const loud = Object.entries(counts).filter(([namespace]) => namespace !== 'quiet');
    expect(loud).toHaveLength(30);
    expect(loud.every(([, count]) => count === 6 || count === 7)).toBe(true);
    // The latest failure of each is the one that stays.
    const last = variantKey(image(19));
    expect(failures.list().filter((q) => q.variant === last)).toHaveLength(30);
  });
  test('and the log stay small whatever stands in Pods: forged images of 200 KB leave nothing, real ones little', () => {
    const { failures, lines } = start();
    const forged = 'x'.repeat(200_000);
    for (let i = 0; i < 20; i++) failures.note(failing(forged, `n${i}`, `${forged}${i}`), undefined);
    expect([failures.list(), lines]).toEqual([[], []]);
    const longest = (i: number): string => `reg.example.com/${'x'.repeat(230)}:${'t'.repeat(120)}${i}`;
    for (let i = 0; i < 500; i++) failures.note(failing('"'.repeat(200_000), `n${i}`, longest(i)), undefined);
    expect(failures.list()).toHaveLength(200);
    expect(JSON.stringify(failures.list()).length).toBeLessThan(256 * 1024);
    expect(Math.max(...lines.map((line) => JSON.stringify(line).length))).toBeLessThan(2_000);
  });
  test('takes over what was published, but no end that is further away than its own', () => {
    const { failures } = start();
    const entry = { namespace: 'team', variant: 'v', reason: 'ImageNotFound', message: '' };
    failures.adopt([
      { ...entry, until: T0 + 1 },
      { ...entry, variant: 'w', until: T0 + 2 * QUARANTINE_MS },
    ]);
    expect(failures.list().map((q) => q.variant)).toEqual(['v']);
  });
});
