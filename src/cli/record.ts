import { ANNOTATION } from '../api/names.js';
import { choicesOf } from '../images/ladder/compare.js';
import { formatOf, imageFormat } from '../images/formats/index.js';
import { markOf } from '../images/formats/marks.js';
import type { ImageFormat } from '../images/formats/format.js';
import { RECORD_ARTIFACT_TYPE } from '../images/ladder/freshness.js';
import { runsOn } from '../images/platform.js';
import { MAX_CHOICES } from '../images/ladder/picks.js';
import { prove } from '../images/ladder/prove.js';
import { atDigest, format, parseReference } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import type { Descriptor, ManifestFact, PlatformDescriptor, RegistryPort } from '../images/registry-port.js';
import { otherPlatform } from '../images/ladder/other-platform.js';
import { platformOf, resolveSource } from '../images/resolve.js';
import type { ResolvedSource, SourcePlatform } from '../images/resolve.js';
import type { RegistryWriter } from '../registry/push.js';

export interface RecordOptions {
  source: string;
  variant: string;
  registry: RegistryPort & RegistryWriter;
  /** Only these platforms of the source; all when empty. */
  platforms: readonly string[];
  /** Writes the record although something speaks against it. */
  force: boolean;
}

/** What was found or done for one image of the variant. */
export interface Recorded {
  platform: string | undefined;
  /** Digest of the image of the variant that the record is about. */
  variant: string;
  /** Digest of the source's image for the platform. */
  source: string;
  format: string | undefined;
  /** `proven`: the variant shows by itself what it was made from; `present`: the very record was there. */
  result: 'proven' | 'present' | 'pushed';
  detail: string;
  /** Digest of the record. */
  record?: string;
}

/** An image of the variant and the platform of the source that it stands for. */
interface Pair {
  of: SourcePlatform;
  image: ManifestFact;
  descriptor: Descriptor;
  listed?: PlatformDescriptor;
  format: ImageFormat | undefined;
}

interface Context extends RecordOptions {
  resolved: ResolvedSource;
  candidate: Reference;
  index: ManifestFact;
}

/**
 * Writes down, beside a variant, what it was made from: one artifact for each of its images, which refers to it (OCI `subject`) and names
 * the source by digest. Nothing is written for an image that proves its source by itself. Throws with the way out where something
 * speaks against the record, unless forced.
 */
export async function recordSource(options: RecordOptions): Promise<Recorded[]> {
  const context = await readBoth(options);
  const pairs = await pairsOf(context);
  const judged: { pair: Pair; proof: Judgement }[] = [];
  // All are judged before anything is written: half a record makes a variant that some nodes use and others do not.
  for (const pair of pairs) judged.push({ pair, proof: await judge(context, pair) });
  const done: Recorded[] = [];
  for (const { pair, proof } of judged) done.push(await write(context, pair, proof));
  return done;
}

/** The annotation by which a converter can leave the record itself, for a source whose digest is known. Throws. */
export async function sourceAnnotation({ source, registry }: Pick<RecordOptions, 'source' | 'registry'>): Promise<string> {
  const resolved = await resolveSource(source, registry);
  if (!resolved.ok) throw new Error(resolved.message);
  return `${ANNOTATION.sourceDigest}=${resolved.digest}`;
}

async function readBoth(options: RecordOptions): Promise<Context> {
  const { source, variant, registry, platforms } = options;
  const parsed = parseReference(variant);
  if (!parsed.ok) throw new Error(`the variant cannot be parsed: ${parsed.problem}`);
  const candidate = parsed.reference;
  const resolved = await resolveSource(source, registry, platforms.length === 0 ? {} : { platforms });
  if (!resolved.ok) throw new Error(resolved.message);
  if (resolved.reference.registry !== candidate.registry)
    throw new Error(
      `${variant} is not in the registry of its source (${resolved.reference.registry}), and Harbinger looks for variants nowhere else; copy it there first`,
    );
  const index = await registry.manifest(candidate, { fresh: true });
  if (index.digest === resolved.digest) throw new Error(`${source} and ${variant} are the same image; name the variant as well`);
  return { ...options, resolved, candidate, index };
}

async function pairsOf(context: Context): Promise<Pair[]> {
  const { index, resolved, candidate, registry } = context;
  if (index.kind === 'manifest') return [await single(context)];
  const pairs: Pair[] = [];
  for (const of of resolved.platforms) {
    const choices = await choicesOf({ source: resolved, port: registry }, index, of);
    if (choices.length === 0)
      throw new Error(
        `${format(candidate)} has no image for ${of.platform ?? 'any platform'}; convert all platforms of the source, or name those that it has by --platform`,
      );
    if (choices.length > MAX_CHOICES)
      throw new Error(
        `${format(candidate)} has images for more than ${MAX_CHOICES} platforms that nodes may take for ${of.platform ?? 'the source'}; convert the platforms of the source only`,
      );
    // A merged index has two images for a platform, and nodes run one or the other: each one needs its record.
    for (const listed of choices.flatMap(({ images }) => images)) {
      const image = await registry.manifest(atDigest(candidate, listed.digest));
      const mark = markOf(listed);
      const marked = mark === 'nydus' || mark === 'overlaybd' ? imageFormat(mark) : undefined;
      pairs.push({ of, image, listed, descriptor: listed, format: marked ?? formatOf(image, index, listed) });
    }
  }
  return pairs;
}

/** A variant without index is of one platform, which its config tells. */
async function single({ index, resolved, candidate, registry }: Context): Promise<Pair> {
  const platform = index.config === undefined ? undefined : await platformOf(registry, candidate, index.config.digest, {});
  const of =
    resolved.platforms.length === 1
      ? resolved.platforms[0]
      : resolved.platforms.find((p) => platform !== undefined && p.platform !== undefined && runsOn(platform, p.platform));
  if (of === undefined)
    throw new Error(
      `${format(candidate)} is one image for ${platform ?? 'a platform that it does not tell'}, and the source has ${resolved.platforms.map((p) => p.platform ?? '?').join(', ')}; name the one by --platform`,
    );
  const descriptor = { digest: index.digest, mediaType: index.mediaType, size: index.bytes ?? 0, annotations: {} };
  return { of, image: index, descriptor, format: formatOf(index) };
}

/** What the ladder would say of the image, with records left out that earlier calls wrote. */
interface Judgement {
  proven: boolean;
  detail: string;
}

async function judge(context: Context, { of, image, listed, format: found }: Pair): Promise<Judgement> {
  const { candidate, index, resolved, registry, force } = context;
  const name = `${format(atDigest(candidate, image.digest))}${of.platform === undefined ? '' : ` (${of.platform})`}`;
  if (found === undefined)
    return objection(force, `${name} is of no format that Harbinger knows, so no policy can name it; see docs/formats.md`);
  const { certain, text } = await otherPlatform({ registry, of, image, source: resolved.reference, candidate });
  if (certain) throw new Error(`${name} is ${text}; convert the source for its own platforms; nothing was written`);
  if (text !== undefined) return objection(force, `${name} is ${text}`);
  const proof = await prove({
    question: { source: resolved, rules: [], freshness: 'Probable', port: withoutRecords(registry) },
    format: found,
    candidate,
    image,
    variant: index,
    of,
    ...(listed === undefined ? {} : { listed }),
  });
  if ('outcome' in proof) throw new Error(`${name} cannot be compared with its source: ${proof.message}`);
  if (proof.verdict === 'exact') return { proven: true, detail: `${found.name}, exact by ${proof.rung}: ${proof.detail}` };
  if (proof.verdict === 'stale')
    return objection(force, `${name} does not look as if it was made from the source: ${proof.detail}`);
  return { proven: false, detail: `${found.name}, ${proof.detail.split(';')[0] ?? ''}` };
}

function objection(force: boolean, text: string): Judgement {
  if (!force) throw new Error(`${text}; nothing was written (--force writes the record all the same)`);
  return { proven: false, detail: `forced: ${text}` };
}

function withoutRecords(port: RegistryPort): RegistryPort {
  return {
    manifest: (...args) => port.manifest(...args),
    config: (...args) => port.config(...args),
    referrers: () => Promise.resolve({ referrers: [], how: 'api', detail: 'records are not looked at' }),
  };
}

async function write(context: Context, { of, image, descriptor, format: found }: Pair, proof: Judgement): Promise<Recorded> {
  const { candidate, registry, force } = context;
  const base = { platform: of.platform, variant: image.digest, source: of.digest, format: found?.name };
  if (proof.proven && !force) return { ...base, result: 'proven', detail: proof.detail };
  const present = await existing(context, image.digest, of.digest);
  if (present !== undefined) return { ...base, result: 'present', detail: 'the same record is there already', record: present };
  const annotations = { [ANNOTATION.sourceDigest]: of.digest };
  const pushed = await registry.pushReferrer(candidate, {
    artifactType: RECORD_ARTIFACT_TYPE,
    annotations,
    subject: descriptor,
  });
  const how =
    pushed.how === 'api'
      ? 'the registry lists it by its referrers API'
      : 'the registry did not say that it lists referrers, so it is listed by the fallback tag as well';
  return { ...base, result: 'pushed', detail: `${how}; ${proof.detail}`, record: pushed.digest };
}

/** Digest of a record that says the same. */
async function existing({ candidate, registry }: Context, variant: string, source: string): Promise<string | undefined> {
  const { referrers } = await registry.referrers(candidate, variant, { fresh: true });
  for (const { digest, artifactType, annotations: listed } of referrers) {
    // Lists repeat annotations, as far as the registry does; one that names another source need not be read.
    if (artifactType !== RECORD_ARTIFACT_TYPE || (listed[ANNOTATION.sourceDigest] ?? source) !== source) continue;
    const { annotations } = await registry.manifest(atDigest(candidate, digest));
    if (annotations[ANNOTATION.sourceDigest] === source) return digest;
  }
  return undefined;
}

/** One line for each image; ends with a newline. */
export function renderRecorded(recorded: readonly Recorded[]): string {
  const words: Readonly<Record<Recorded['result'], string>> = {
    proven: 'no record needed',
    present: 'recorded already',
    pushed: 'recorded',
  };
  const one = ({ platform, variant, source, result, detail, record }: Recorded): string =>
    [
      `${words[result]}: ${platform ?? 'the image'}\n`,
      `  variant  ${variant}\n`,
      `  source   ${source}\n`,
      ...(record === undefined ? [] : [`  record   ${record}\n`]),
      `  ${detail}\n`,
    ].join('');
  return recorded.map(one).join('');
}
