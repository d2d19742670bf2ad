/** Platforms as one canonical text, `os/architecture[/variant]`, so that they can be compared, logged and used as keys. */

/** Variants that say no more than the architecture itself (containerd's normalisation). */
const IMPLIED: Readonly<Record<string, string>> = { arm64: 'v8', amd64: 'v1', arm: 'v7' };
const ALIASES: Readonly<Record<string, string>> = { aarch64: 'arm64', x86_64: 'amd64', 'x86-64': 'amd64', armhf: 'arm' };

/** The canonical text of a platform; implied variants are dropped, so `linux/arm64/v8` and `linux/arm64` are one. */
export function platformText(os: string, architecture: string, variant = ''): string {
  const arch = ALIASES[architecture.toLowerCase()] ?? architecture.toLowerCase();
  const kept = variant === '' || IMPLIED[arch] === variant ? '' : `/${variant}`;
  return `${os.toLowerCase()}/${arch}${kept}`;
}

/**
 * Whether an image for platform `offered` runs on a node of platform `wanted`. Nodes report no variant (`nodeInfo.architecture`);
 * then any variant of the architecture is taken, as the runtime on the node makes the final choice.
 */
export function runsOn(offered: string, wanted: string): boolean {
  if (offered === wanted) return true;
  const [os, arch] = offered.split('/');
  const [wantedOs, wantedArch, wantedVariant] = wanted.split('/');
  return os === wantedOs && arch === wantedArch && wantedVariant === undefined;
}

/** Whether a text can be the name of an operating system, an architecture or a variant; others come from hostile indexes. */
export function isPlatformWord(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,32}$/.test(text);
}
