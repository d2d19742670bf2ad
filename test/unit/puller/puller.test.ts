import { describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { pullerBinary } from '../../../tools/oci-image/index.js';

const go = spawnSync('go', ['version']).status === 0;

// Only who has Go can build the puller, and a cluster needs Go anyway.
(go ? describe : describe.skip)('the puller program (skipped without Go)', () => {
  test.each([
    ['is vetted', ['vet', './...']],
    ['passes its own tests', ['test', './...']],
  ])(
    '%s',
    (_, args) => {
      const result = spawnSync('go', args, { cwd: 'puller', encoding: 'utf8' });
      expect(`${result.stdout}${result.stderr}`).toMatch(args[0] === 'vet' ? /^$/ : /^ok/);
      expect(result.status).toBe(0);
    },
    120_000,
  );

  test('is small and static, and says what is wrong', async () => {
    const binary = await pullerBinary();
    expect(statSync(binary).size).toBeLessThan(3e6);
    const { status, stderr } = spawnSync(binary, ['hold', '/nowhere'], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('the image volume is not mounted there') });
  }, 120_000);
});
