import { INSTALL } from '../../../src/api/names.js';
import { Explainer, podWith } from '../../../src/cli/explain.js';
import type { Explanation } from '../../../src/cli/explain.js';
import { OfflineGround } from '../../../src/cli/offline.js';
import type { OfflineFacts } from '../../../src/cli/offline.js';
import { defaultConfig } from '../../../src/config/load.js';
import type { RegistryPort } from '../../../src/images/registry-port.js';
import type { Policy } from '../../../src/rewrite/policy-match.js';

/** Facts of a shell without any flag, but for those given. */
export function offline(facts: Partial<OfflineFacts> = {}): OfflineGround {
  const assumptions = { platforms: [], capable: [] };
  const common = { config: defaultConfig(), installedIn: INSTALL.namespace, policies: [], namespaceLabels: {}, assumptions };
  return new OfflineGround({ ...common, ...facts });
}

export interface Question {
  image: string;
  policies: readonly Policy[];
  port: RegistryPort;
  namespaceLabels?: Record<string, string>;
  platforms?: string[];
}

/** What `harbinger explain IMAGE` finds. */
export async function explain({ image, policies, port, namespaceLabels = {}, platforms = [] }: Question): Promise<Explanation> {
  const ground = offline({ policies, namespaceLabels, assumptions: { platforms, capable: [] } });
  const { containers } = await new Explainer({ ground, port }).pod({ namespace: 'default', pod: podWith(image) });
  const [only] = containers;
  if (only === undefined) throw new Error('no container was explained');
  return only;
}
