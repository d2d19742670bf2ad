import { BlockList, isIP, isIPv6 } from 'node:net';

/** What kind of place an IP address is, as far as it matters for requests that a tenant can cause. */
export type AddressClass = 'public' | 'private' | 'loopback' | 'link-local' | 'reserved';

// Link-local holds the metadata services of the clouds (169.254.169.254, fe80::a9fe:a9fe); four more stand elsewhere.
const RANGES: readonly (readonly [Exclude<AddressClass, 'public'>, readonly string[]])[] = [
  ['link-local', ['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::/32', 'fd20:ce::254/128', '100.100.100.200/32', '168.63.129.16/32']],
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
      '64:ff9b:1::/48',
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

/**
 * Prefixes of 96 bits before an IPv4 address, which is what is reached: NAT64 (RFC 6052, and RFC 8215 for local use), mapped, translated
 * (RFC 2765) and compatible (RFC 4291) addresses. Local NAT64 with a shorter prefix is reserved above, as its layout cannot be told.
 */
const EMBEDDING: readonly string[] = ['64:ff9b:0:0:0:0', '64:ff9b:1:0:0:0', '0:0:0:0:0:ffff', '0:0:0:0:ffff:0', '0:0:0:0:0:0'];

/** Classifies an IP address in text form; IPv4 inside IPv6 counts as the IPv4 address. Not an address: reserved. */
export function classify(address: string): AddressClass {
  const bare = address.replace(/%.*$/, '');
  const family = isIP(bare);
  if (family === 0) return 'reserved';
  const inner = family === 6 ? embedded(bare) : undefined;
  if (inner !== undefined) return classify(inner);
  return LISTS.find(({ list }) => list.check(bare, family === 6 ? 'ipv6' : 'ipv4'))?.kind ?? 'public';
}

function embedded(address: string): string | undefined {
  const groups = groupsOf(address);
  const value = (groups[6] ?? 0) * 65_536 + (groups[7] ?? 0);
  const prefix = groups.slice(0, 6).map((group) => group.toString(16));
  // `::` and `::1` have meanings of their own.
  if (!EMBEDDING.includes(prefix.join(':')) || (value <= 1 && prefix.every((group) => group === '0'))) return undefined;
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}

/** The eight numbers of an IPv6 address. */
function groupsOf(address: string): number[] {
  // The URL parser gives the one canonical spelling, without a dotted part.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = [], tail = []] = canonical.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return [...head, ...gap, ...tail].map((group) => Number.parseInt(group, 16));
}
