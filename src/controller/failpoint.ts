import type { ActuatorOptions } from './actions.js';

/**
 * Lets a test kill the process at an exact place: HARBINGER_FAILPOINT=`before:<action>` or `after:<action>`, and only where
 * HARBINGER_ENABLE_FAILPOINTS=1 says that this is wanted. SIGKILL, because an exit that runs handlers is not a crash.
 */
export function failpointFrom(env: NodeJS.ProcessEnv): ActuatorOptions['failpoint'] {
  const point = env['HARBINGER_ENABLE_FAILPOINTS'] === '1' ? env['HARBINGER_FAILPOINT'] : undefined;
  return (at) => {
    if (at === point) process.kill(process.pid, 'SIGKILL');
  };
}
