import { REPOSITORY_TEMPLATE } from '../../api/kinds/acceleration-policy.js';
import { parseReference, tagOf } from '../reference.js';
import type { Reference } from '../reference.js';

/**
 * The reference that a template names for a source, or a sentence that says why it names none. It always stands in the registry of the
 * source: the credentials of the Pod must serve, and no other host may be asked. No tag is guessed for a source that has none.
 */
export function expandTemplate(source: Reference, template: string): Reference | string {
  const colon = template.indexOf(':');
  const path = colon < 0 ? template : template.slice(0, colon);
  const tag = colon < 0 ? '{tag}' : template.slice(colon + 1);
  const own = tagOf(source);
  if (!REPOSITORY_TEMPLATE.test(template)) return `${JSON.stringify(template.slice(0, 80))} is not a repository template`;
  if (own === undefined && `${path}${tag}`.includes('{tag}'))
    return `the image is named by digest, so there is no tag for ${template}`;
  const fill = (text: string): string =>
    text.replace(/\{(repository|tag)\}/g, (_, name) => (name === 'tag' ? (own ?? '') : source.repository));
  const text = `${source.registry}/${fill(path)}:${fill(tag)}`;
  const parsed = parseReference(text);
  if (!parsed.ok) return `${text.slice(0, 300)} is not an image: ${parsed.problem}`;
  const { reference } = parsed;
  if (reference.registry !== source.registry) return `${text.slice(0, 300)} leaves the registry of the source`;
  const same = reference.repository === source.repository && reference.tag === own;
  return same ? `${template} names the source itself` : reference;
}
