import type { VariantRule } from '../../../../src/api/kinds/acceleration-policy.js';
import { resolveSource } from '../../../../src/images/resolve.js';
import type { ResolvedSource } from '../../../../src/images/resolve.js';
import { findVariant } from '../../../../src/images/ladder/variant.js';
import type { VariantAnswer, VariantQuestion } from '../../../../src/images/ladder/variant.js';
import { MemoryRegistry } from '../support.js';

export const REPOSITORY = 'r.example.com/a/b';
export const SOURCE = `${REPOSITORY}:1`;

export async function resolved(port: MemoryRegistry, image = SOURCE, platforms?: readonly string[]): Promise<ResolvedSource> {
  const source = await resolveSource(image, port, platforms === undefined ? {} : { platforms });
  if (!source.ok) throw new Error(source.message);
  port.asked.length = 0;
  return source;
}

export interface Ground {
  /** Image that the tag `1` names, and the children below it. */
  source: object;
  children?: readonly object[];
  /** Image that the tag `1-x` names. */
  variant?: object | Error;
  platforms?: readonly string[];
}

/** A registry with a source, and a variant under the tag `1-x`. */
export function ground({ source, children = [], variant }: Ground): MemoryRegistry {
  const port = new MemoryRegistry().set(SOURCE, source).add(REPOSITORY, ...children);
  return variant === undefined ? port : port.set(`${SOURCE}-x`, variant);
}

export const byTag = (format: VariantRule['format']): VariantRule => ({ format, discover: { tagSuffix: '-x' } });

/** Asks the ladder once. */
export async function climb(
  port: MemoryRegistry,
  rules: VariantRule | readonly VariantRule[],
  more: Partial<VariantQuestion> & { image?: string } = {},
): Promise<VariantAnswer> {
  const { image, ...question } = more;
  const source = await resolved(port, image, question.platforms);
  return findVariant({ source, rules: Array.isArray(rules) ? rules : [rules as VariantRule], port, ...question });
}
