import { describe, expect, test } from '@jest/globals';
import { createLog, stripSecrets } from '../../../src/observe/log.js';

function captured(act: (log: ReturnType<typeof createLog>) => void): Record<string, unknown>[] {
  const lines: string[] = [];
  act(createLog({ level: 'info', name: 'webhook', destination: { write: (line: string) => void lines.push(line) } }));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('createLog', () => {
  test('writes one JSON object a line with level, time and process', () => {
    const [line] = captured((log) => log.info({ key: 'ns/name' }, 'changed'));
    expect(line).toMatchObject({ level: 'info', process: 'webhook', key: 'ns/name', msg: 'changed' });
    expect(Date.parse(String(line?.['time']))).not.toBeNaN();
  });

  test('leaves out what is below the level', () => {
    expect(captured((log) => log.debug('quiet'))).toHaveLength(0);
  });

  test.each([
    ['a header', { headers: { authorization: 'Bearer s3cret' } }],
    ['a token at the top', { token: 's3cret' }],
    ['a password in a list of registries', { config: { registry: { password: 's3cret' } } }],
    ['a docker config in a Secret', { secret: { data: { '.dockerconfigjson': 's3cret' } } }],
    ['a header in any case', { response: { headers: { Authorization: 's3cret' } } }],
    ['a token in a list', { hosts: [{ host: 'a' }, { token: 's3cret' }] }],
    ['a password that an error carries', { err: Object.assign(new Error('no'), { options: { password: 's3cret' } }) }],
    ['a docker config in its data', { data: { '.dockercfg': 's3cret' } }],
  ])('never shows %s', (_name, fields) => {
    const [line] = captured((log) => log.info(fields, 'asked'));
    const text = JSON.stringify(line);
    expect(text).toContain('[redacted]');
    expect(text).not.toContain('s3cret');
  });

  test('leaves what it was given as it was', () => {
    const fields = { registry: { host: 'r.example.com', password: 's3cret' } };
    captured((log) => log.info(fields, 'asked'));
    expect(fields.registry.password).toBe('s3cret');
  });

  test('never shows a signed address that an error carries', () => {
    const [line] = captured((log) =>
      log.error({ err: new Error('GET https://u:s3cret@blobs.example.com/x?sig=s3cret: 403') }, 'failed'),
    );
    const text = JSON.stringify(line);
    expect(text).not.toContain('s3cret');
    expect(text).toContain('https://blobs.example.com/x');
  });
});

describe('stripSecrets', () => {
  test.each([
    ['a plain sentence stays', 'image alpine:3 not found', 'image alpine:3 not found'],
    ['a query goes', 'https://r.example.com/v2/a?token=x b', 'https://r.example.com/v2/a?… b'],
    ['user info goes', 'http://me:pw@r.example.com/a', 'http://r.example.com/a'],
    ['a bearer token goes', 'Authorization: Bearer abcdefghijk', 'Authorization: Bearer …'],
    ['a challenge stays readable', 'Bearer realm="https://a.example.com"', 'Bearer realm="https://a.example.com"'],
  ])('%s', (_name, text, want) => {
    expect(stripSecrets(text)).toBe(want);
  });
});
