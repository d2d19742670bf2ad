import { describe, expect, test } from '@jest/globals';
import type { Clock } from '../../doubles/fake-kubelet/clock.js';
import { behaviourOf, wantedBy } from '../../doubles/fake-kubelet/container.js';
import { SharedLink } from '../../doubles/fake-kubelet/link.js';
import { format, parse } from '../../doubles/fake-kubelet/reference.js';
import { phaseOf, waiting, type ContainerState, type ContainerStatus } from '../../doubles/fake-kubelet/status.js';

/** Time that stands still until it is moved. */
class ManualClock implements Clock {
  #now = 0;
  #timers: { at: number; run: () => void }[] = [];
  now(): number {
    return this.#now;
  }
  setTimeout(run: () => void, ms: number): { cancel(): void } {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return { cancel: () => (this.#timers = this.#timers.filter((each) => each !== timer)) };
  }
  async move(ms: number): Promise<void> {
    for (const end = this.#now + ms; ;) {
      const next = this.#timers.sort((a, b) => a.at - b.at)[0];
      this.#now = Math.min(next?.at ?? end, end);
      if (!next || next.at > end) return;
      this.#timers.shift();
      next.run();
      await new Promise(setImmediate);
    }
  }
}

describe('the shared link', () => {
  test('gives each of n transfers a n-th of its rate, and all of it to the last', async () => {
    const clock = new ManualClock();
    const link = new SharedLink(8, clock); // 1000 bytes a millisecond
    const ended: Record<string, number> = {};
    const carried = { a: 0, b: 0 };
    const start = (name: 'a' | 'b', bytes: number): void =>
      void link.transfer(bytes, (n) => (carried[name] += n)).then(() => (ended[name] = clock.now()));
    start('a', 100_000);
    await clock.move(50);
    start('b', 100_000);
    await clock.move(50);
    link.settle();
    // a: 50 ms alone and 50 ms shared; b: 50 ms shared.
    expect(carried).toEqual({ a: 75_000, b: 25_000 });
    await clock.move(1_000);
    expect(ended).toEqual({ a: 150, b: 200 });
    expect(carried).toEqual({ a: 100_000, b: 100_000 });
  });
});

describe('references', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  test.each([
    ['busybox', 'docker.io/library/busybox:latest'],
    ['me/app:v1', 'docker.io/me/app:v1'],
    ['127.0.0.1:5000/a/b', '127.0.0.1:5000/a/b:latest'],
    [`10.77.1.2:5000/a:v1@${digest}`, `10.77.1.2:5000/a@${digest}`],
  ])('%s is kept as %s', (text, name) => {
    const reference = parse(text);
    expect(reference && format(reference)).toBe(name);
  });
  test.each(['', 'UPPER/Case', 'a:b:c', `a@sha256:${'a'.repeat(63)}`, 'a b'])('"%s" is refused', (text) =>
    expect(parse(text)).toBeUndefined(),
  );
});

describe('a container', () => {
  test.each([
    [['sleep', '5'], { seconds: 5, exitCode: 0 }],
    [['sh', '-c', 'echo hi; sleep 2; sleep 1.5'], { seconds: 3.5, exitCode: 0 }],
    [['sh', '-c', 'sleep 1; exit 3'], { seconds: 1, exitCode: 3 }],
    [['false'], { seconds: 0, exitCode: 1 }],
    [['sh', '-c', 'while :; do sleep 86400 & wait $!; done'], { exitCode: 0 }],
    [['/puller', 'hold', '/image'], { exitCode: 0 }],
    [['sleep', 'infinity'], { exitCode: 0 }],
  ])('of command %j behaves as %j', (command, behaviour) => {
    expect(behaviourOf({ name: 'c', image: 'i', command })).toEqual(behaviour);
  });

  test('does what annotations say before anything else', () => {
    const told = { 'fake.harbinger.dev/run-seconds': '1', 'fake.harbinger.dev/exit-code': '2' };
    expect(behaviourOf({ name: 'c', image: 'i', command: ['sleep', '5'] }, told)).toEqual({ seconds: 1, exitCode: 2 });
  });

  test('wants the image volumes that it mounts, then its image', () => {
    const volumes = [
      { name: 'v', image: { reference: 'model', pullPolicy: 'Never' } },
      { name: 'other', image: { reference: 'x' } },
      { name: 'plain' },
    ];
    const spec = { name: 'c', image: 'app:v1', volumeMounts: [{ name: 'v' }, { name: 'plain' }] };
    expect(wantedBy(spec, volumes)).toEqual([
      { reference: 'model', policy: 'Never' },
      { reference: 'app:v1', policy: 'IfNotPresent' },
    ]);
  });
});

describe('the phase of a Pod', () => {
  const status = (state: ContainerState, lastState: ContainerState = {}): ContainerStatus => ({
    ...waiting({ name: 'c', image: 'i' }, ''),
    state,
    lastState,
  });
  const ended = (exitCode: number): ContainerState => ({
    terminated: { exitCode, reason: '', startedAt: '', finishedAt: '', containerID: '' },
  });
  const [wait, run] = [status({ waiting: { reason: 'x' } }), status({ running: { startedAt: '' } })];
  test.each([
    { phase: 'Pending', with: 'a container that waits', policy: 'Always', inits: [], containers: [run, wait] },
    { phase: 'Pending', with: 'an init container that runs', policy: 'Never', inits: [run], containers: [wait] },
    { phase: 'Running', with: 'containers that run', policy: 'Never', inits: [], containers: [run, status(ended(0))] },
    {
      phase: 'Running',
      with: 'a container between two starts',
      policy: 'OnFailure',
      inits: [],
      containers: [status({ waiting: { reason: 'CrashLoopBackOff' } }, ended(1))],
    },
    { phase: 'Running', with: 'an ended one that starts again', policy: 'Always', inits: [], containers: [status(ended(0))] },
    { phase: 'Succeeded', with: 'containers that have ended well', policy: 'Never', inits: [], containers: [status(ended(0))] },
    {
      phase: 'Failed',
      with: 'one that has ended badly',
      policy: 'Never',
      inits: [],
      containers: [status(ended(0)), status(ended(1))],
    },
    {
      phase: 'Failed',
      with: 'an init container that has failed',
      policy: 'Never',
      inits: [status(ended(1))],
      containers: [wait],
    },
  ])('is $phase with $with under $policy', ({ phase, policy, inits, containers }) => {
    expect(phaseOf(policy, inits, containers)).toBe(phase);
  });
});
