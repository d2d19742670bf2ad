/** An image reference in its parts. */
export interface Reference {
  registry: string;
  repository: string;
  tag?: string;
  digest?: string;
}

const PATTERN = /^(?<name>[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*?)(?::(?<tag>[\w][\w.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$/;

/** Reads a reference as containerd does: docker.io and library/ are added, `latest` where neither tag nor digest stands. Undefined when invalid. */
export function parse(text: string): Reference | undefined {
  const groups = PATTERN.exec(text)?.groups;
  if (!groups?.['name']) return undefined;
  const [first = '', ...rest] = groups['name'].split('/');
  const hasHost = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost');
  const path = hasHost ? rest : [first, ...rest];
  if (path.some((part) => part.includes(':'))) return undefined;
  const registry = hasHost ? first : 'docker.io';
  const repository = registry === 'docker.io' && path.length === 1 ? `library/${path[0]}` : path.join('/');
  const { tag, digest } = groups;
  return { registry, repository, ...(digest ? { digest } : { tag: tag ?? 'latest' }) };
}

/** The name under which containerd keeps it: of `repo:tag@digest` the tag is dropped. */
export function format(reference: Reference): string {
  const base = `${reference.registry}/${reference.repository}`;
  return reference.digest ? `${base}@${reference.digest}` : `${base}:${reference.tag}`;
}
