import type { NodeSettings } from './node.js';

/** What the process is given, as JSON. */
export interface Settings extends NodeSettings {
  names: string[];
  kubeconfig: string;
  linkMbit: number;
  registries: string[];
  /** Written when all Nodes are registered: the port of the control server. */
  readyFile: string;
}
