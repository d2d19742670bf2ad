import { lookup as systemLookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP, isIPv6 } from 'node:net';
import type { LookupFunction } from 'node:net';
import type { RegistryConfig } from '../config/schema.js';
import { RegistryError } from '../images/registry-port.js';
import { classify } from './addresses.js';
import type { AddressClass } from './addresses.js';

/**
 * Where requests may go. Images are named by tenants and tokens and redirects are named by registries, so both could point Harbinger at
 * the inside of the cluster: only listed registries are asked, and every address is checked when the connection is made.
 */

/** Docker Hub's images carry a host that does not serve the API. */
const API_HOSTS: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };

/** Which addresses a destination may have. */
export interface Trust {
  classes: ReadonlySet<AddressClass>;
  /** Trust of a listed registry; undefined for hosts that only a registry named (tokens, redirects). */
  listed?: RegistryConfig;
}

const PUBLIC_ONLY: Trust = { classes: new Set(['public']) };

/** Finds all addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const DNS_TIMEOUT_MS = 2000;

/** A mirror that is named and not listed is asked as any registry, without a credential. */
const UNLISTED = { allow: true, plainHTTP: false, allowLocalAddresses: false, mirrors: [] };

export class Egress {
  readonly #listed: ReadonlyMap<string, RegistryConfig>;

  constructor(registries: readonly RegistryConfig[]) {
    this.#listed = new Map(registries.map((registry) => [registry.host.toLowerCase(), registry]));
  }

  /** The settings of the registry that a reference names. Throws RegistryError if it may not be asked. */
  registry(host: string): RegistryConfig {
    const listed = this.#listed.get(host.toLowerCase());
    if (listed?.allow === true) return listed;
    const cause = listed === undefined ? 'is not listed' : 'is listed with allow: false';
    throw new RegistryError(
      `registry ${host} ${cause} in the configuration of Harbinger, so it is not asked; add it under registries with allow: true`,
      { outcome: 'registry-error', host },
    );
  }

  /** The mirrors of a registry, each with its own settings where it is listed itself; those with `allow: false` are left out. */
  mirrors(registry: RegistryConfig): RegistryConfig[] {
    const settings = registry.mirrors.map((host) => this.#listed.get(host.toLowerCase()) ?? { ...UNLISTED, host });
    return settings.filter(({ allow }) => allow);
  }

  /** The trust in a URL that registry `from` named, as realm of its tokens or as redirect. Throws RegistryError if it may not be asked. */
  destination(url: URL, from: RegistryConfig, purpose: 'token realm' | 'redirect'): Trust {
    const refuse = (cause: string): RegistryError =>
      new RegistryError(`registry ${from.host} names ${url.protocol}//${url.host} as ${purpose}, ${cause}`, {
        outcome: 'registry-error',
        host: from.host,
        // It did answer: that keeps the breaker out of it.
        status: purpose === 'redirect' ? 307 : 401,
      });
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && from.plainHTTP))
      throw refuse('which is not https, so it is not followed');
    if (url.host.toLowerCase() === apiUrl(from).host) return trustOf(from);
    const listed = this.#listed.get(url.host.toLowerCase());
    if (listed?.allow === true) return trustOf(listed);
    if (listed !== undefined) throw refuse('which is listed with allow: false');
    // A realm is given the credential, so it has to belong to the registry; a redirect is given nothing.
    if (purpose === 'token realm' && registrableDomain(url.hostname) !== registrableDomain(apiUrl(from).hostname)) {
      throw refuse('which belongs to another domain; add it under registries in the configuration if that is right');
    }
    return PUBLIC_ONLY;
  }
}

/** Base URL of a registry's API. */
export function apiUrl(registry: RegistryConfig): URL {
  return new URL(`${registry.plainHTTP ? 'http' : 'https'}://${API_HOSTS[registry.host] ?? registry.host}`);
}

/** A listed registry may be in the cluster. Loopback and link-local need a host that says so itself, or `allowLocalAddresses`. */
export function trustOf(registry: RegistryConfig): Trust {
  const classes = new Set<AddressClass>(['public', 'private']);
  const { hostname } = apiUrl(registry);
  const literal = bareHost(hostname);
  if (registry.allowLocalAddresses) classes.add('loopback').add('link-local');
  else if (hostname === 'localhost') classes.add('loopback');
  else if (isIP(literal) !== 0) classes.add(classify(literal));
  classes.delete('reserved');
  return { classes, listed: registry };
}

/** Throws if a host that is an address itself is not allowed: no lookup is made for those. */
export function checkLiteral(url: URL, trust: Trust): void {
  const literal = bareHost(url.hostname);
  if (isIP(literal) !== 0 && !trust.classes.has(classify(literal))) throw refusedAddress(url.hostname, literal);
}

/**
 * A lookup for sockets: every address is checked, and the connection is made to exactly those addresses, so a name that
 * changes between check and use (DNS rebinding) gains nothing.
 */
export function guardedLookup(trust: Trust, resolve: Resolve): LookupFunction {
  return (hostname, options, callback) => {
    const answer = async (): Promise<{ address: string; family: number }[]> => {
      const addresses = await resolve(hostname);
      const bad = addresses.find((address) => !trust.classes.has(classify(address)));
      if (bad !== undefined) throw refusedAddress(hostname, bad);
      const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
      return found.filter(({ family }) => options.family === undefined || options.family === 0 || family === options.family);
    };
    answer().then(
      (found) => {
        const first = found[0];
        if (first === undefined) callback(Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' }), '', 0);
        else if (options.all === true) callback(null, found);
        else callback(null, first.address, first.family);
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, '', 0),
    );
  };
}

/** Asks the name servers with a deadline, and the system (hosts file, search domains) only for names that they do not know. */
export const resolveAddresses: Resolve = async (hostname) => {
  if (hostname === 'localhost') return ['127.0.0.1', '::1'];
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 2 });
  const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  return new Promise((resolve, reject) => {
    systemLookup(hostname, { all: true }, (error, found) =>
      error === null ? resolve(found.map(({ address }) => address)) : reject(error),
    );
  });
};

function bareHost(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

function refusedAddress(host: string, address: string): Error {
  const error = new Error(
    `${host} is at ${address}, a ${classify(address)} address; if that is right, list the registry with allowLocalAddresses: true`,
  );
  return Object.assign(error, { code: 'HARBINGER_ADDRESS' });
}

/** The domain that one owner registered, approximated: two labels, or three below endings such as co.uk. */
function registrableDomain(hostname: string): string {
  if (isIP(bareHost(hostname)) !== 0) return hostname;
  const labels = hostname.toLowerCase().split('.');
  const [second = '', top = ''] = labels.slice(-2);
  const shared = top.length === 2 && ['ac', 'co', 'com', 'edu', 'gov', 'net', 'org'].includes(second);
  return labels.slice(shared ? -3 : -2).join('.');
}
