import { describe, expect, test } from '@jest/globals';
import { createLog } from '../../../src/observe/log.js';
import { onShutdown } from '../../../src/observe/shutdown.js';
import { FakeClock } from '../kube/fake-clock.js';

/** Stands in for `process`, which a test cannot end. */
class FakeProcess {
  readonly codes: number[] = [];
  readonly exited: Promise<void>;
  #exit: () => void = () => {};
  readonly #listeners = new Map<string, (...args: unknown[]) => void>();

  constructor() {
    this.exited = new Promise((resolve) => (this.#exit = resolve));
  }
  on(event: string, listener: (...args: unknown[]) => void): void {
    this.#listeners.set(event, listener);
  }
  emit(event: string, ...args: unknown[]): void {
    this.#listeners.get(event)?.(...args);
  }
  exit(code: number): void {
    this.codes.push(code);
    this.#exit();
  }
}

function setup() {
  const process = new FakeProcess();
  const clock = new FakeClock();
  const ran: string[] = [];
  const shutdown = onShutdown(
    createLog({ level: 'silent', name: 'test' }),
    [{ name: 'drain', run: () => void ran.push('drain') }],
    {
      process,
      clock,
      deadlineMs: 1000,
    },
  );
  return { process, clock, ran, shutdown };
}

describe('onShutdown', () => {
  test.each(['SIGTERM', 'SIGINT'])('%s runs the steps in order, later ones too, and exits 0', async (signal) => {
    const { process, ran, shutdown } = setup();
    shutdown.add(
      { name: 'caches', run: () => Promise.resolve().then(() => void ran.push('caches')) },
      { name: 'server', run: () => void ran.push('server') },
    );
    process.emit(signal);
    await process.exited;
    expect(ran).toEqual(['drain', 'caches', 'server']);
    expect(process.codes).toEqual([0]);
    expect(shutdown.signal.aborted).toBe(true);
  });

  test('a step that fails does not keep the next from running', async () => {
    const { process, ran, shutdown } = setup();
    shutdown.add({ name: 'bad', run: () => Promise.reject(new Error('no')) }, { name: 'last', run: () => void ran.push('last') });
    process.emit('SIGTERM');
    await process.exited;
    expect(ran).toEqual(['drain', 'last']);
  });

  test('a step that hangs is cut off at the deadline, with a code that shows it', async () => {
    const { process, clock, shutdown } = setup();
    shutdown.add({ name: 'hangs', run: () => new Promise(() => {}) });
    process.emit('SIGTERM');
    await clock.advance(999);
    expect(process.codes).toEqual([]);
    await clock.advance(1);
    await process.exited;
    expect(process.codes).toEqual([1]);
  });

  test('a second signal exits at once', async () => {
    const { process, shutdown } = setup();
    shutdown.add({ name: 'hangs', run: () => new Promise(() => {}) });
    process.emit('SIGTERM');
    process.emit('SIGTERM');
    await process.exited;
    expect(process.codes).toEqual([1]);
  });

  test('a lost lease and an unhandled rejection exit with an error', async () => {
    const lost = setup();
    lost.shutdown.begin('lease lost', 1);
    await lost.process.exited;
    expect(lost.process.codes).toEqual([1]);
    const broken = setup();
    broken.process.emit('unhandledRejection', new Error('defect'));
    await broken.process.exited;
    expect(broken.process.codes).toEqual([1]);
  });
});
