import { describe, expect, test } from '@jest/globals';
import { missingPackages } from '../../cluster/packages/index.js';
import { addressIn, clusterPrefix, interfaceName, memberName } from '../../cluster/network/names.js';

describe('packages of real nodes', () => {
  test.each([
    [
      'nothing is installed',
      () => false,
      ['runc', 'containernetworking-plugins', 'nftables', 'iproute2', 'procps', 'busybox-static', 'util-linux'],
    ],
    ['all is installed', () => true, []],
    ['only the CNI plugins of another place are there', (path: string) => !path.startsWith('/usr/lib/cni'), []],
    ['runc is not', (path: string) => !path.includes('runc'), ['runc']],
  ])('are named when %s', (_, exists, missing) => {
    expect(missingPackages(exists)).toEqual(missing);
  });

  test('have those of the converters with them only where formats are tested', () => {
    const without = (path: string): boolean => !path.includes('skopeo');
    expect(missingPackages(without)).toEqual([]);
    expect(missingPackages(without, { converters: true })).toEqual(['skopeo']);
  });
});

describe('names on the machine', () => {
  test('of one cluster are never taken for those of another whose name begins alike', () => {
    expect(memberName('a-b', 'node-1').startsWith(clusterPrefix('a'))).toBe(false);
    expect(memberName('a', 'node-1').startsWith(clusterPrefix('a'))).toBe(true);
  });

  test.each(['A', 'a_b', 'a/b', ''])('refuse the cluster name "%s"', (name) =>
    expect(() => clusterPrefix(name)).toThrow(/use a-z/),
  );

  test('of interfaces fit the kernel and differ', () => {
    const [bridge, veth] = [interfaceName('bridge', 'x'), interfaceName('veth', 'x')];
    expect(bridge).not.toBe(veth);
    expect(bridge.length).toBeLessThanOrEqual(15);
  });

  test('addresses come from a /24 only', () => {
    expect(addressIn('10.77.3.0/24', 7)).toBe('10.77.3.7');
    expect(() => addressIn('10.77.0.0/16', 7)).toThrow(/a\.b\.c\.0\/24/);
  });
});
