import type { KubeObject } from '../api/object.js';
import type { Page, PageOptions, WatchPort } from './client.js';
import { isExpired } from './errors.js';
import type { Resource } from './resources.js';

/**
 * All pages of a list. When the server's snapshot expires between two pages it offers a token with which the list goes on from its
 * present state; without using it, a reader that is slower than the compaction of etcd would start over for ever. The later pages are
 * then younger than the first: who needs one state watches from the version of the first page, and so hears of all that was missed.
 */
export async function* readPages<T extends KubeObject>(
  client: Pick<WatchPort, 'listPage'>,
  resource: Resource,
  options: PageOptions,
): AsyncGenerator<Page<T>> {
  let token: string | undefined;
  do {
    const page: Page<T> = await pageOrLater(client, resource, token === undefined ? options : { ...options, continue: token });
    token = page.continue;
    yield page;
  } while (token !== undefined);
}

async function pageOrLater<T extends KubeObject>(
  client: Pick<WatchPort, 'listPage'>,
  resource: Resource,
  options: PageOptions,
): Promise<Page<T>> {
  try {
    return await client.listPage<T>(resource, options);
  } catch (error) {
    if (!isExpired(error) || error.continueToken === undefined) throw error;
    return client.listPage<T>(resource, { ...options, continue: error.continueToken });
  }
}
