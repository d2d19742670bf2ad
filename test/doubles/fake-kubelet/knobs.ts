/**
 * Faults of a fake node, switched by annotations of its Node: the API is how tests and the demo reach it, from any process.
 * Absent or "false" is off.
 */
export interface Knobs {
  /** Pods are reported Running although none of their images is there, and nothing is pulled. */
  lie: boolean;
  /** Pulls fail with "no space left on device". */
  diskFull: boolean;
  /** The node reports Ready=False; its Pods go on. */
  notReady: boolean;
  /** The kubelet is dead: no heartbeat, no status, no Pod starts or ends. Pulls that run go on. */
  silent: boolean;
  /** Pulls take their time and then fail with this text. */
  pullFails: string | undefined;
  /** Pulls do not end while this is on. */
  hang: boolean;
}

const PREFIX = 'fake.harbinger.dev/';

/** Annotations as they are written on a Node. */
export const knobNames = {
  lie: `${PREFIX}lie`,
  diskFull: `${PREFIX}disk-full`,
  notReady: `${PREFIX}not-ready`,
  silent: `${PREFIX}silent`,
  pullFails: `${PREFIX}pull-fails`,
  hang: `${PREFIX}hang`,
} as const;

/** On a Pod: seconds that each of its containers runs, for one whose command does not end in `sleep N`. */
export const RUN_SECONDS = `${PREFIX}run-seconds`;
/** On a Pod: exit code of its containers; default 0. */
export const EXIT_CODE = `${PREFIX}exit-code`;

export function readKnobs(annotations: Readonly<Record<string, string>> | undefined): Knobs {
  const value = (name: keyof typeof knobNames): string | undefined => {
    const text = annotations?.[knobNames[name]];
    return text === 'false' ? undefined : text;
  };
  return {
    lie: value('lie') !== undefined,
    diskFull: value('diskFull') !== undefined,
    notReady: value('notReady') !== undefined,
    silent: value('silent') !== undefined,
    pullFails: value('pullFails'),
    hang: value('hang') !== undefined,
  };
}
