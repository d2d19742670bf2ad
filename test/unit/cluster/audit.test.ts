import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditLog, type AuditFilter } from '../../cluster/audit.js';

const line = (user: string, verb: string, resource: string, more: Record<string, unknown> = {}): string =>
  `${JSON.stringify({
    stage: 'ResponseComplete',
    requestReceivedTimestamp: '2026-01-01T00:00:10.000000Z',
    stageTimestamp: '2026-01-01T00:00:10.250000Z',
    user: { username: user, groups: ['g'] },
    verb,
    requestURI: `/api/v1/${resource}`,
    objectRef: { resource, namespace: 'ns', name: 'n' },
    responseStatus: { code: 200 },
    ...more,
  })}\n`;

describe('AuditLog.query', () => {
  let dir: string;
  let path: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'harbinger-audit-test-'));
    path = join(dir, 'audit.log');
    appendFileSync(path, line('system:serviceaccount:a:b', 'list', 'pods'));
    appendFileSync(path, line('admin', 'patch', 'pods', { objectRef: { resource: 'pods', subresource: 'status' } }));
    appendFileSync(path, line('admin', 'watch', 'pods', { stage: 'ResponseStarted' }));
    appendFileSync(path, line('admin', 'get', 'secrets', { responseStatus: { code: 403 } }));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  test.each<[string, AuditFilter, string[]]>([
    ['all completed requests', {}, ['list', 'patch', 'get']],
    ['a user', { user: 'admin' }, ['patch', 'get']],
    ['a service account in short', { user: 'a:b' }, ['list']],
    ['a resource with its subresources', { resource: 'pods' }, ['list', 'patch']],
    ['one subresource', { resource: 'pods/status' }, ['patch']],
    ['a code', { code: 403 }, ['get']],
    ['open watches', { stage: 'ResponseStarted' }, ['watch']],
    ['every stage', { stage: 'any' }, ['list', 'patch', 'watch', 'get']],
    ['since its very start', { since: Date.parse('2026-01-01T00:00:10Z') }, ['list', 'patch', 'get']],
    ['since later', { since: Date.parse('2026-01-01T00:00:11Z') }, []],
    ['two fields that no request has together', { user: 'a:b', verb: 'get' }, []],
  ])('finds by %s', (_, filter, verbs) => {
    expect(new AuditLog(path).query(filter).map((e) => e.verb)).toEqual(verbs);
  });

  test('sees what is appended later, also when a line comes in two pieces', () => {
    const log = new AuditLog(path);
    const before = log.query().length;
    const text = line('zoë', 'delete', 'jobs');
    const bytes = Buffer.from(text);
    const cut = bytes.indexOf('ë') + 1; // inside the two bytes of the letter
    appendFileSync(path, bytes.subarray(0, cut));
    expect(log.query().length).toBe(before);
    appendFileSync(path, bytes.subarray(cut));
    expect(log.query({ verb: 'delete' }).map((e) => e.user)).toEqual(['zoë']);
  });

  test('a log that does not exist yet is empty', () => {
    expect(new AuditLog(join(dir, 'none')).query()).toEqual([]);
  });
});
