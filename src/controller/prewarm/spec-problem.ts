import type { ImagePrewarm } from '../../api/kinds/index.js';

/** Why a spec that the API server let in cannot be acted on, naming the field and the way out; undefined where it can. */
export function specProblem({ spec }: Pick<ImagePrewarm, 'spec'>): string | undefined {
  const names = spec.targets.map((t) => t.name);
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) return `two targets are named "${twice}"; names of targets must differ`;
  const dragonfly = spec.seed?.dragonfly;
  // Pulling without the seed would put the load on the registry that the seed was to spare it.
  if (dragonfly !== undefined)
    return `spec.seed.dragonfly names "${dragonfly.name}", and the configuration has no such Dragonfly cluster: this version cannot seed one; remove spec.seed, and nodes pull from the registry`;
  return spec.seed === undefined ? undefined : 'spec.seed names no P2P network; remove spec.seed';
}
