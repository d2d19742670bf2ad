import { readFile } from 'node:fs/promises';
import { parseAllDocuments } from 'yaml';
import { record, records, string } from '../api/json.js';
import type { Json } from '../api/json.js';
import { inOrder, readPolicy } from '../rewrite/policy-match.js';
import type { Policy } from '../rewrite/policy-match.js';

/** Policies from YAML files of one or more documents, in the order in which they are asked; other kinds are passed over. Throws. */
export async function readPolicies(files: readonly string[]): Promise<Policy[]> {
  const policies: Policy[] = [];
  for (const file of files) {
    const found = policiesOf(await readFile(file, 'utf8'), file);
    if (found.length === 0) throw new Error(`${file} holds no AccelerationPolicy`);
    policies.push(...found);
  }
  return inOrder(policies);
}

function policiesOf(text: string, file: string): Policy[] {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) return [];
  const broken = documents.find((document) => document.errors.length > 0);
  if (broken !== undefined) throw new Error(`${file} is not YAML: ${broken.errors[0]?.message ?? ''}`);
  const objects = documents.flatMap((document) => flatten(record(plain(document, file))));
  return objects.filter((object) => object['kind'] === 'AccelerationPolicy').map((object) => checked(object, file));
}

/** Aliases are resolved here, so an unquoted `**` fails only now. */
function plain(document: { toJS(): unknown }, file: string): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new Error(`${file} is not YAML: ${(error as Error).message} (patterns that start with * need quotes)`, {
      cause: error,
    });
  }
}

/** `kubectl get accpol -o yaml` prints a List. */
function flatten(object: Json | undefined): Json[] {
  if (object === undefined) return [];
  return object['kind'] === 'List' ? [...records(object['items'])] : [object];
}

function checked(object: Json, file: string): Policy {
  const name = string(record(object['metadata'])?.['name']);
  if (name === undefined) throw new Error(`${file}: an AccelerationPolicy has no metadata.name`);
  const reading = readPolicy({ metadata: { name }, spec: object['spec'] });
  if (!reading.ok) throw new Error(`${file}: ${reading.problem}`);
  return reading.policy;
}
