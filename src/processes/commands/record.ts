import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { printed } from '../../cli/output.js';
import { recordSource, renderRecorded, sourceAnnotation } from '../../cli/record.js';
import { namedRegistries } from '../../cli/registries.js';
import { loadConfig } from '../../config/load.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { parseReference } from '../../images/reference.js';
import { createRegistry } from '../../registry/index.js';
import { UsageError } from '../usage.js';
import { registryDeps } from './ground.js';

export interface RecordFlags {
  platform?: string[];
  printAnnotation?: true;
  force?: true;
  config?: string;
  dockerConfig?: string;
  output: 'text' | 'json' | 'yaml';
}

/** Pushes the records, or prints the annotation that would make them unneeded. */
export async function runRecord(
  { source, variant }: { source: string; variant: string | undefined },
  flags: RecordFlags,
): Promise<void> {
  if (variant === undefined && flags.printAnnotation !== true)
    throw new UsageError('no variant given; write harbinger record SOURCE VARIANT, or --print-annotation');
  const registry = createRegistry(await configFor(source, flags), await registryDeps());
  try {
    if (flags.printAnnotation === true) {
      process.stdout.write(`${await sourceAnnotation({ source, registry })}\n`);
      return;
    }
    const { platform: platforms = [], force = false } = flags;
    const recorded = await recordSource({ source, variant: variant ?? '', registry, platforms, force });
    process.stdout.write(flags.output === 'text' ? renderRecorded(recorded) : printed({ images: recorded }, flags.output));
  } finally {
    await registry.close();
  }
}

/** A credential that may push is the person's own; what Harbinger has in a cluster is for reading. */
async function configFor(source: string, { config, dockerConfig }: RecordFlags): Promise<HarbingerConfig> {
  const own = dockerConfig ?? (await dockerConfigFile());
  if (config === undefined) {
    const parsed = parseReference(source);
    return namedRegistries(parsed.ok ? [parsed.reference.registry] : [], own);
  }
  const loaded = await loadConfig(config);
  if (own === undefined) return loaded;
  const registries = loaded.registries.map((registry) =>
    registry.credential !== undefined && dockerConfig === undefined
      ? registry
      : { ...registry, credential: { dockerConfigFile: own, forPods: true } },
  );
  return { ...loaded, registries };
}

/** Where docker, crane and their kin keep what `login` wrote. */
async function dockerConfigFile(): Promise<string | undefined> {
  const path = join(process.env['DOCKER_CONFIG'] ?? join(homedir(), '.docker'), 'config.json');
  return access(path).then(
    () => path,
    () => undefined,
  );
}
