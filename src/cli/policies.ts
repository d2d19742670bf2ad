import { record, string } from '../api/json.js';
import { inOrder, readPolicy } from '../rewrite/policy-match.js';
import type { Policy } from '../rewrite/policy-match.js';
import { readManifests } from './manifests.js';
import type { Manifest } from './manifests.js';

/** Policies from YAML files or folders, in the order in which they are asked; other kinds are passed over. Throws. */
export async function readPolicies(paths: readonly string[]): Promise<Policy[]> {
  const policies: Policy[] = [];
  for (const path of paths) {
    const found = await policiesIn(path);
    if (found.length === 0) throw new Error(`${path} holds no AccelerationPolicy`);
    policies.push(...found);
  }
  return inOrder(policies);
}

async function policiesIn(path: string): Promise<Policy[]> {
  const found: Policy[] = [];
  for await (const entry of readManifests(path, process.stdin)) {
    // A policy that was meant and is not read would change every answer, so nothing is passed over here.
    if ('problem' in entry) throw new Error(`${entry.problem.file}:${entry.problem.line ?? 1}: ${entry.problem.message}`);
    if (entry.manifest.object['kind'] === 'AccelerationPolicy') found.push(checked(entry.manifest));
  }
  return found;
}

function checked({ object, file, line }: Manifest): Policy {
  const name = string(record(object['metadata'])?.['name']);
  if (name === undefined) throw new Error(`${file}:${line}: an AccelerationPolicy has no metadata.name`);
  const reading = readPolicy({ metadata: { name }, spec: object['spec'] });
  if (!reading.ok) throw new Error(`${file}:${line}: ${reading.problem}`);
  return reading.policy;
}
