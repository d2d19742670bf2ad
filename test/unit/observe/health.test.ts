import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HealthServer } from '../../../src/observe/health.js';
import { createLog } from '../../../src/observe/log.js';
import { Metrics } from '../../../src/observe/metrics.js';

describe('HealthServer', () => {
  let server: HealthServer;
  let problem: string | undefined;
  const log = createLog({ level: 'silent', name: 'test' });
  const get = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
    return { status: response.status, text: await response.text() };
  };

  beforeEach(async () => {
    const metrics = new Metrics();
    metrics.counter('x_total', 'X.').inc();
    problem = undefined;
    server = new HealthServer({ port: 0, host: '127.0.0.1', metrics, log });
    server.check('certificate', () => undefined);
    server.check('caches', () => problem);
    await server.start();
  });
  afterEach(() => server.stop());

  test('is ready when no check names a problem', async () => {
    expect(await get('/readyz')).toEqual({ status: 200, text: '[+] certificate\n[+] caches\nready\n' });
  });

  test('names the failing check and why, and stays alive', async () => {
    problem = 'workloads: forbidden';
    const { status, text } = await get('/readyz');
    expect(status).toBe(503);
    expect(text).toContain('[-] caches: workloads: forbidden');
    expect(text).toContain('[+] certificate');
    expect((await get('/healthz')).status).toBe(200);
  });

  test('is not ready once it drains, although every check passes', async () => {
    server.drain();
    expect((await get('/readyz')).status).toBe(503);
  });

  test('serves metrics, and says what it serves elsewhere', async () => {
    expect((await get('/metrics')).text).toContain('x_total 1');
    expect((await get('/')).status).toBe(404);
  });

  test('a taken port is an error that names the flag', async () => {
    const second = new HealthServer({ port: server.port, host: '127.0.0.1', metrics: new Metrics(), log });
    await expect(second.start()).rejects.toThrow('--health-port');
  });
});
