import type { ControllerOptions } from './options.js';

export function runController(_options: ControllerOptions): Promise<void> {
  return Promise.reject(new Error('the controller is not part of this build'));
}
