import { beforeEach, describe, expect, test } from '@jest/globals';
import { Guard } from '../../../src/controller/gangs/guard.js';
import { KubeError } from '../../../src/kube/errors.js';

const OLD = { key: 'team/w', resourceVersion: '7' };
const NEW = { key: 'team/w', resourceVersion: '8' };
const refused = new KubeError('the object has been modified', { status: 409, reason: 'Conflict' });
const silent = new KubeError('no answer', { status: 0, reason: 'Timeout' });

describe.each(['a check that becomes Ready', 'a record that changes'])('the mark of %s', (which) => {
  let now = 0;
  let mark: { begin: () => void; fail: (error: unknown) => void; forget: () => void; stands: (at: typeof OLD) => boolean };
  beforeEach(() => {
    now = 0;
    const guard = new Guard(() => now);
    mark =
      which === 'a check that becomes Ready'
        ? {
            begin: () => guard.lettingGo(OLD),
            fail: (e) => guard.notLetGo(OLD.key, e),
            forget: () => guard.forgetWorkload(OLD.key),
            stands: (at) => guard.isLettingGo(at),
          }
        : {
            begin: () => guard.changing(OLD),
            fail: (e) => guard.notChanged(OLD.key, e),
            forget: () => guard.forgetPrewarm(OLD.key),
            stands: (at) => guard.isChanging(at),
          };
  });

  test('stands as long as the cache shows what was there before, be it for hours', () => {
    expect(mark.stands(OLD)).toBe(false);
    mark.begin();
    now = 10 * 3_600_000;
    expect(mark.stands(OLD)).toBe(true);
  });
  test('ends with the next version, whoever made it', () => {
    mark.begin();
    expect(mark.stands(NEW)).toBe(false);
    expect(mark.stands({ ...OLD, key: 'team/other' })).toBe(false);
  });
  test('ends when the write is refused: nothing was written', () => {
    mark.begin();
    mark.fail(refused);
    expect(mark.stands(OLD)).toBe(false);
  });
  test('stands for a while when no answer came: the write may be done yet', () => {
    mark.begin();
    mark.fail(silent);
    now = 60_000;
    expect(mark.stands(OLD)).toBe(true);
    now = 90_000;
    expect(mark.stands(OLD)).toBe(false);
  });
  test('is not made by a failure alone', () => {
    mark.fail(silent);
    expect(mark.stands(OLD)).toBe(false);
  });
  test('goes with the object', () => {
    mark.begin();
    mark.forget();
    expect(mark.stands(OLD)).toBe(false);
  });
});
