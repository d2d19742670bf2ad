import type { KubeObject } from '../api/object.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { KubePort } from './port.js';

export interface ObjectReference {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
  uid?: string;
}

export function referenceOf(object: KubeObject): ObjectReference {
  const { namespace, name, uid } = object.metadata;
  return { apiVersion: object.apiVersion, kind: object.kind, name, ...(namespace === undefined ? {} : { namespace }), ...(uid === undefined ? {} : { uid }) };
}

export interface EventInput {
  regarding: ObjectReference;
  type: 'Normal' | 'Warning';
  /** Why it happened, PascalCase: `NoCandidateNodes`. */
  reason: string;
  /** What was done or tried, PascalCase: `Prewarm`. */
  action: string;
  note: string;
}

export interface EventRecorderOptions {
  client: KubePort;
  /** `reportingController`, e.g. `harbinger.dev/controller`. */
  controller: string;
  /** `reportingInstance`: the Pod name. */
  instance: string;
  clock: Clock;
  log: Log;
  metrics?: Metrics;
}

export class EventRecorder {
  constructor(_options: EventRecorderOptions) {}
  event(_input: EventInput): void {}
  /** Sends what is queued, within `timeoutMs`. */
  stop(_timeoutMs?: number): Promise<void> {
    return Promise.resolve();
  }
}
