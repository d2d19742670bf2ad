import { describe, expect, test } from '@jest/globals';
import { recordSource } from '../../../src/cli/record.js';
import type { Recorded } from '../../../src/cli/record.js';
import type { Pushed, Referrer } from '../../../src/registry/push.js';
import { MemoryRegistry, digestOf, indexBody, manifestBody } from '../images/support.js';

const REPOSITORY = 'r.example.com/team/app';
const AMD = 'linux/amd64';
const ARM = 'linux/arm64';

/** A registry that keeps what is written to it apart. */
class WritableRegistry extends MemoryRegistry {
  readonly pushed: Referrer[] = [];

  pushReferrer(_: unknown, manifest: Referrer): Promise<Pushed> {
    this.pushed.push(manifest);
    return Promise.resolve({ digest: digestOf(JSON.stringify(manifest)), how: 'api' });
  }
}

/** A source and an eStargz variant of it, by the platforms of their configs; undefined where a config does not tell. */
function single(source: string | undefined, variant: string | undefined): WritableRegistry {
  const registry = new WritableRegistry();
  registry.set(`${REPOSITORY}:1`, manifestBody({ name: 'source' }));
  registry.set(`${REPOSITORY}:1-esgz`, manifestBody({ name: 'variant', marked: 2 }));
  for (const [name, platform] of Object.entries({ source, variant })) {
    const [os, architecture, more] = platform?.split('/') ?? [];
    if (os !== undefined) registry.setConfig(digestOf(`config ${name}`), { os, architecture, variant: more });
  }
  return registry;
}

/** The same as indexes, which list both images as linux/amd64, whatever the configs say. */
function indexed(source: string, variant: string): WritableRegistry {
  const [one, other] = [manifestBody({ name: 'source' }), manifestBody({ name: 'variant', marked: 2 })];
  const registry = single(source, variant).add(REPOSITORY, one, other);
  registry.set(`${REPOSITORY}:1`, indexBody([{ platform: AMD, body: one }]));
  return registry.set(`${REPOSITORY}:1-esgz`, indexBody([{ platform: AMD, body: other }]));
}

const run = (registry: WritableRegistry, force = false): Promise<Recorded[]> =>
  recordSource({ source: `${REPOSITORY}:1`, variant: `${REPOSITORY}:1-esgz`, registry, platforms: [], force });

describe('record', () => {
  test.each([
    ['without index', single(AMD, AMD)],
    ['with an index', indexed(AMD, AMD)],
    ['that does not tell its CPU variant', single('linux/arm/v6', 'linux/arm')],
    ['where neither tells a platform', single(undefined, undefined)],
  ])('writes down the source of a variant %s', async (_, registry) => {
    expect(await run(registry)).toMatchObject([{ result: 'pushed' }]);
    expect(registry.pushed).toHaveLength(1);
  });

  test.each([
    ['without index', single(AMD, ARM)],
    ['that an index lists as what it is not', indexed(AMD, ARM)],
    ['whose source is listed as what it is not', indexed(ARM, AMD)],
  ])('refuses a variant of another platform %s, forced or not', async (_, registry) => {
    for (const force of [false, true])
      await expect(run(registry, force)).rejects.toThrow(/is for linux\/a\w+, and its source for linux\/a.*nothing was written/);
    expect(registry.pushed).toEqual([]);
  });

  test('refuses a variant that does not tell its platform, unless forced', async () => {
    const registry = single(AMD, undefined);
    await expect(run(registry)).rejects.toThrow(/a platform that its config does not tell.*nothing was written \(--force/);
    expect(registry.pushed).toEqual([]);
    expect(await run(registry, true)).toMatchObject([{ result: 'pushed', detail: expect.stringContaining('forced') }]);
  });
});
