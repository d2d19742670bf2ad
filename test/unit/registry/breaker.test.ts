import { describe, expect, test } from '@jest/globals';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { LookupOptions, RegistryErrorDetails } from '../../../src/images/registry-port.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { Breaker } from '../../../src/registry/breaker.js';
import { Egress } from '../../../src/registry/egress.js';
import { GuardedRegistry } from '../../../src/registry/guard.js';
import { UnreachableError } from '../../../src/registry/http-failure.js';
import { RateLimits } from '../../../src/registry/rate-limit.js';
import { askerOf } from '../../../src/registry/target.js';
import { MemoryRegistry, factOf, manifestBody } from '../images/support.js';
import { TestClock, failure, listed, ref } from './support.js';

const HOST = 'r.example.com';
const IMAGE = ref(`${HOST}/a:1`);

function setup() {
  const clock = new TestClock();
  const port = new MemoryRegistry();
  const metrics = new Metrics();
  const breaker = new Breaker(clock);
  const limits = new RateLimits({ clock, metrics });
  const guarded = new GuardedRegistry(port, {
    egress: new Egress([listed(HOST), listed('other.example.com')]),
    breaker,
    limits,
    metrics,
    clock,
  });
  const answer = (details: Partial<RegistryErrorDetails> | undefined, image = `${HOST}/a:1`): void => {
    port.set(
      image,
      details === undefined
        ? manifestBody({ name: 'good' })
        : new RegistryError('no answer', { outcome: 'registry-error', host: HOST, ...details }),
    );
  };
  const ask = async (times = 1, image = IMAGE, options: LookupOptions = {}): Promise<string> => {
    let outcome = '';
    for (let i = 0; i < times; i += 1)
      outcome = await guarded.manifest(image, options).then(
        () => 'answer',
        (error: RegistryError) => error.outcome,
      );
    return outcome;
  };
  return { clock, port, metrics, breaker, limits, guarded, answer, ask };
}

describe('a host that fails', () => {
  test('is left alone after five failures in a row, and no request is made', async () => {
    const { port, guarded, answer, ask } = setup();
    answer({});
    expect(await ask(5)).toBe('registry-error');
    expect(await ask()).toBe('circuit-open');
    expect(port.asked).toHaveLength(5);
    expect(await failure(guarded.manifest(IMAGE))).toMatchObject({
      message: `registry ${HOST} is left alone with images of ${HOST}/a for 15 s more: no answer`,
      retryAfterMs: 15_000,
    });
  });

  test('is tried once after the pause; an answer closes the breaker', async () => {
    const { clock, breaker, answer, ask } = setup();
    answer({});
    await ask(5);
    clock.advance(15_000);
    expect(breaker.worst(`${HOST} `)).toBe('half-open');
    answer(undefined);
    expect(await ask()).toBe('answer');
    expect(breaker.worst(`${HOST} `)).toBe('closed');
    answer({});
    expect(await ask(4)).toBe('registry-error');
    expect(breaker.worst(`${HOST} `)).toBe('closed');
  });

  test('is left alone twice as long after each failed trial, up to two minutes', async () => {
    const { clock, guarded, answer, ask } = setup();
    answer({});
    await ask(5);
    const pauses: (number | undefined)[] = [];
    for (let i = 0; i < 5; i += 1) {
      const { retryAfterMs } = await failure(guarded.manifest(IMAGE));
      pauses.push(retryAfterMs);
      clock.advance(retryAfterMs ?? 0);
      await ask();
    }
    expect(pauses).toEqual([15_000, 30_000, 60_000, 120_000, 120_000]);
  });

  test('lets through one trial at a time', () => {
    const clock = new TestClock();
    const breaker = new Breaker(clock);
    for (let i = 0; i < 5; i += 1) breaker.fail(HOST, { cause: 'down' });
    clock.advance(15_000);
    expect(breaker.enter(HOST)).toBeUndefined();
    expect(breaker.enter(HOST)).toMatchObject({ cause: 'down' });
    breaker.abandon(HOST);
    expect(breaker.enter(HOST)).toBeUndefined();
  });

  test('does not shut off another host', async () => {
    const { port, guarded, answer, ask } = setup();
    answer({});
    await ask(6);
    port.set('other.example.com/a:1', manifestBody({ name: 'good' }));
    expect(await guarded.manifest(ref('other.example.com/a:1'))).toMatchObject({ kind: 'manifest' });
  });
});

describe('what one tenant can do', () => {
  const pod = (password: string): LookupOptions => ({ credential: { username: 'u', password }, forPod: true });
  const other = ref(`${HOST}/other/x:1`);

  test('images of one project that fail, however many, cut off that project only', async () => {
    const { port, answer, ask } = setup();
    answer(undefined, `${HOST}/other/x:1`);
    for (const status of [undefined, 500, 503])
      for (let i = 0; i < 20; i += 1) {
        const image = `${HOST}/proxy/dead-${status ?? 0}-${i}:1`;
        answer({ ...(status === undefined ? {} : { status }), retryAfterMs: 300_000 }, image);
        await ask(1, ref(image));
      }
    expect(await ask(1, ref(`${HOST}/proxy/dead-500-0:1`))).toBe('circuit-open');
    expect(await ask(1, other)).toBe('answer');
    expect(port.asked.length).toBeLessThan(10);
  });

  test('while five projects that fail in a row are the registry', async () => {
    const { answer, ask } = setup();
    answer(undefined, `${HOST}/other/x:1`);
    for (const project of ['p1', 'p2', 'p3', 'p4']) {
      answer({ status: 502 }, `${HOST}/${project}/a:1`);
      await ask(1, ref(`${HOST}/${project}/a:1`));
    }
    expect(await ask(1, other)).toBe('answer');
    for (const project of ['p1', 'p2', 'p3', 'p4', 'p5']) {
      answer({ status: 502 }, `${HOST}/${project}/a:1`);
      await ask(1, ref(`${HOST}/${project}/a:1`));
    }
    expect(await ask(1, other)).toBe('circuit-open');
  });

  test('a registry that nobody can connect to is left alone as a whole', async () => {
    const { port, ask } = setup();
    for (let i = 0; i < 5; i += 1) {
      port.set(`${HOST}/a/x:${i}`, new UnreachableError('down', { outcome: 'registry-error', host: HOST }));
      await ask(1, ref(`${HOST}/a/x:${i}`));
    }
    expect(await ask(1, other)).toBe('circuit-open');
    expect(await ask(1, other, pod('a'))).toBe('circuit-open');
  });

  test('a credential that is limited pauses itself, not those of other Pods and not that of Harbinger', async () => {
    const { metrics, answer, ask } = setup();
    answer({ status: 429, retryAfterMs: 60_000 });
    await ask(1, IMAGE, pod('limited'));
    answer(undefined);
    expect(await ask(1, IMAGE, pod('limited'))).toBe('circuit-open');
    expect(await ask(1, IMAGE, pod('another'))).toBe('answer');
    expect(await ask(1, IMAGE, { forPod: true })).toBe('answer');
    expect(await ask()).toBe('answer');
    expect(await metrics.text()).toContain(`harbinger_registry_breaker_state{host="${HOST}"} 0`);
    // The twin: what limits Harbinger's own pauses that, and no Pod's.
    answer({ status: 429, retryAfterMs: 60_000 });
    await ask();
    answer(undefined);
    expect(await ask(1, other)).toBe('circuit-open');
    expect(await ask(1, IMAGE, pod('another'))).toBe('answer');
  });

  test('a credential with which a registry fails cuts off nobody else', async () => {
    const { answer, ask } = setup();
    for (const project of ['p1', 'p2', 'p3', 'p4', 'p5', 'p6']) {
      answer({ status: 500 }, `${HOST}/${project}/a:1`);
      await ask(5, ref(`${HOST}/${project}/a:1`), pod('strange'));
    }
    answer(undefined, `${HOST}/p1/a:1`);
    expect(await ask(1, ref(`${HOST}/p1/a:1`), pod('strange'))).toBe('circuit-open');
    expect(await ask(1, ref(`${HOST}/p1/a:1`), pod('another'))).toBe('answer');
    expect(await ask(1, ref(`${HOST}/p1/a:1`))).toBe('answer');
  });

  test('an allowance that is nearly used up slows down the credential that it belongs to', async () => {
    const { limits, metrics, answer, ask } = setup();
    answer(undefined);
    const headers = { 'ratelimit-limit': '100;w=21600', 'ratelimit-remaining': '1;w=21600' };
    const limited = pod('limited');
    limits.learn(`${HOST} ${askerOf(limited, listed(HOST))} `, headers);
    expect(await ask(1, IMAGE, limited)).toBe('circuit-open');
    expect(await ask(1, IMAGE, pod('another'))).toBe('answer');
    expect(await ask()).toBe('answer');
    expect(await metrics.text()).not.toContain('rate_limit_remaining{');
  });

  test('a success from before a pause does not end it', () => {
    const { breaker, clock } = setup();
    breaker.fail('k', { cause: 'limited', atOnce: true, askedMs: 60_000 });
    breaker.succeed('k');
    expect(breaker.state('k')).toBe('open');
    clock.advance(60_000);
    breaker.enter('k');
    breaker.succeed('k');
    expect(breaker.state('k')).toBe('closed');
  });
});

describe('a registry that limits', () => {
  test('is left alone at once, for as long as it asks', async () => {
    const { clock, answer, ask } = setup();
    answer({ status: 429, retryAfterMs: 43_000 });
    await ask();
    clock.advance(42_999);
    expect(await ask()).toBe('circuit-open');
    clock.advance(1);
    answer(undefined);
    expect(await ask()).toBe('answer');
  });

  test('cannot ask for more than five minutes', async () => {
    const { clock, answer, ask } = setup();
    answer({ status: 429, retryAfterMs: 86_400_000 });
    await ask();
    clock.advance(300_000);
    answer(undefined);
    expect(await ask()).toBe('answer');
  });
});

describe('what is no failure of the host', () => {
  test.each<[string, Partial<RegistryErrorDetails>]>([
    ['an image that is not there', { outcome: 'variant-missing', status: 404 }],
    ['an image that is denied', { outcome: 'auth-denied', status: 401 }],
    ['an image that is unusable, else a tenant could cut off everyone', { status: 200 }],
    ['a redirect that is refused', { status: 307 }],
    ['a caller that gave up', { outcome: 'budget-exceeded' }],
  ])('%s', async (_, details) => {
    const { breaker, answer, ask } = setup();
    answer(details);
    expect(await ask(20)).toBe(details.outcome ?? 'registry-error');
    expect(breaker.worst(`${HOST} `)).toBe('closed');
  });

  test('hosts that are not listed get no breaker and no metric', async () => {
    const { port, metrics, guarded } = setup();
    for (let i = 0; i < 20; i += 1)
      expect(await failure(guarded.manifest(ref(`made-up-${i}.example.com/a:1`)))).toMatchObject({
        message: expect.stringContaining('is not listed'),
      });
    expect(port.asked).toEqual([]);
    expect(await metrics.text()).not.toContain('made-up');
  });
});

test('the state is a metric', async () => {
  const { metrics, answer, ask } = setup();
  answer({});
  await ask(5);
  expect(await metrics.text()).toContain(`harbinger_registry_breaker_state{host="${HOST}"} 2`);
});

describe('a trial call that hangs', () => {
  /** A host that answers, is down, hangs, by turns; `elapse` lets the waits of its callers end. */
  function hanging() {
    const waits: (() => void)[] = [];
    const clock = Object.assign(new TestClock(), {
      setTimeout: (fn: () => void) => {
        waits.push(fn);
        return { cancel: () => undefined };
      },
    });
    const port = new MemoryRegistry().set(`${HOST}/a:1`, new RegistryError('down', { outcome: 'registry-error', host: HOST }));
    const metrics = new Metrics();
    const breaker = new Breaker(clock);
    const trial: { end?: () => void } = {};
    const hang = (): void => {
      port.manifest = () => new Promise((resolve) => (trial.end = () => resolve(factOf(manifestBody({ name: 'good' })))));
    };
    const egress = new Egress([listed(HOST)]);
    const guarded = new GuardedRegistry(port, { egress, breaker, limits: new RateLimits({ clock, metrics }), metrics, clock });
    return { guarded, clock, hang, trial, elapse: () => waits.forEach((end) => end()) };
  }

  test('costs its callers a short wait, and still closes the breaker when it is answered', async () => {
    const { guarded, clock, hang, trial, elapse } = hanging();
    for (let i = 0; i < 5; i += 1) await failure(guarded.manifest(IMAGE));
    clock.advance(20_000);
    hang();
    const first = failure(guarded.manifest(IMAGE));
    elapse();
    expect(await first).toMatchObject({ outcome: 'circuit-open' });
    expect(await failure(guarded.manifest(IMAGE))).toMatchObject({ outcome: 'circuit-open' });
    trial.end?.();
    await Promise.resolve();
    const next = guarded.manifest(IMAGE);
    trial.end?.();
    expect(await next).toMatchObject({ kind: 'manifest' });
  });

  test('is waited for where it is answered soon', async () => {
    const { guarded, clock, hang, trial } = hanging();
    for (let i = 0; i < 5; i += 1) await failure(guarded.manifest(IMAGE));
    clock.advance(20_000);
    hang();
    const first = guarded.manifest(IMAGE);
    trial.end?.();
    expect(await first).toMatchObject({ kind: 'manifest' });
  });
});
