import { canRunRealNodes } from './doctor.js';
import { ensurePackages } from './packages/index.js';

export type NodeKind = 'real' | 'fake';

export interface NodeChoice {
  nodes: NodeKind;
  /** One line for people. */
  why: string;
}

/**
 * Real nodes where this machine can have them, else fake ones and the reason. `wanted` is the value of NODES ("" for no wish); a wish for
 * real nodes that cannot be met is an error, since falling back would answer another question than was asked.
 */
export async function chooseNodes(wanted: string, say: (line: string) => void): Promise<NodeChoice> {
  if (wanted === 'fake') return { nodes: 'fake', why: 'as asked by NODES=fake; NODES=real runs kubelets and containerd' };
  if (wanted !== '' && wanted !== 'real') throw new Error(`NODES=${wanted} is not known: use NODES=real or NODES=fake`);
  const problem = await obstacle(say);
  if (problem === undefined) return { nodes: 'real', why: 'a kubelet and a containerd each, in network namespaces' };
  if (wanted === 'real')
    throw new Error(`NODES=real is not possible here: ${problem}. "make doctor" tells more; NODES=fake runs everywhere`);
  return { nodes: 'fake', why: `real ones are not possible here: ${problem}` };
}

async function obstacle(say: (line: string) => void): Promise<string | undefined> {
  const machine = canRunRealNodes();
  if (!machine.ok) return machine.why;
  const packages = await ensurePackages(say);
  return packages.ok ? undefined : packages.why;
}
