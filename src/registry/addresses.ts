import { BlockList, isIP, isIPv6 } from 'node:net';

/** What kind of place an IP address is, as far as it matters for requests that a tenant can cause. */
export type AddressClass = 'public' | 'private' | 'loopback' | 'link-local' | 'reserved';

// Link-local holds the metadata services of the clouds (169.254.169.254, fe80::a9fe:a9fe); two more stand elsewhere.
const RANGES: readonly (readonly [Exclude<AddressClass, 'public'>, readonly string[]])[] = [
  ['link-local', ['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::/32', '100.100.100.200/32', '168.63.129.16/32']],
  ['loopback', ['127.0.0.0/8', '::1/128']],
  [
    'reserved',
    [
      '0.0.0.0/8',
      '192.0.0.0/24',
      '192.0.2.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '224.0.0.0/3',
      '::/128',
      '100::/64',
      '2001:db8::/32',
      '2002::/16',
      '2001::/32',
      'ff00::/8',
    ],
  ],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7', 'fec0::/10']],
];

const LISTS = RANGES.map(([kind, ranges]) => {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = '', bits = '0'] = range.split('/');
    list.addSubnet(network, Number(bits), isIPv6(network) ? 'ipv6' : 'ipv4');
  }
  return { kind, list };
});

/** Well-known prefix of NAT64: the IPv4 address behind it is what is reached. */
const NAT64 = '64:ff9b::';

/** Classifies an IP address in text form; IPv4 inside IPv6 (mapped, NAT64) counts as the IPv4 address. Not an address: reserved. */
export function classify(address: string): AddressClass {
  const bare = address.replace(/%.*$/, '');
  const family = isIP(bare);
  if (family === 0) return 'reserved';
  const inner = family === 6 ? embedded(bare) : undefined;
  if (inner !== undefined) return classify(inner);
  return LISTS.find(({ list }) => list.check(bare, family === 6 ? 'ipv6' : 'ipv4'))?.kind ?? 'public';
}

function embedded(address: string): string | undefined {
  // The URL parser gives the one canonical spelling of an IPv6 address.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const prefix = [NAT64, '::ffff:'].find((p) => canonical.startsWith(p));
  if (prefix === undefined) return undefined;
  const groups = canonical.slice(prefix.length).split(':');
  if (groups.length > 2) return undefined;
  const value = groups.reduce((sum, group) => sum * 65_536 + Number.parseInt(group || '0', 16), 0);
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}
