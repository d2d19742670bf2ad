import type { WebhookOptions } from './options.js';

export function runWebhook(_options: WebhookOptions): Promise<void> {
  return Promise.reject(new Error('the webhook is not part of this build'));
}
