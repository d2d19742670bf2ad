export type PackagesAnswer = { ok: true; installed: string[] } | { ok: false; missing: string[]; why: string };

/**
 * Sees to the operating system's programs that real nodes need. As root on Debian or Ubuntu it names the missing ones through `say` and installs
 * them; elsewhere it answers what is missing and why it does nothing.
 */
export function ensurePackages(_say: (line: string) => void): Promise<PackagesAnswer> {
  return Promise.resolve({ ok: false, missing: [], why: 'not built yet' });
}
