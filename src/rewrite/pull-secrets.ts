import { at, string } from '../api/json.js';
import type { SecretNames } from '../images/secret-names.js';
import { secretNames } from '../images/secret-names.js';
import type { PodView } from './pod-view.js';

/**
 * Where the pull secrets of a Pod are named. The API server copies those of the ServiceAccount into new Pods before webhooks are
 * called, unless its ServiceAccount plugin is off.
 */
export function pullSecretsOf({ raw }: PodView): SecretNames {
  const spec = at(raw, 'spec');
  const secrets = secretNames(spec['imagePullSecrets']);
  return secrets.length > 0 ? { secrets } : { serviceAccount: string(spec['serviceAccountName']) ?? 'default' };
}
