// Plays the kubelets of N nodes against a real API server and a real registry: `main.ts SETTINGS.json`.
//
// Like a kubelet 1.36 with containerd 2.4 it registers Nodes with a Lease and heartbeats; pulls container images and image volumes (manifests are
// fetched for real, layers only take the time that their bytes need on one link that all nodes share); lists images as `repo@digest` first, the 50
// biggest, some seconds late; lets a pull outlive the Pod that asked for it and a second Pod join it; reports ErrImagePull and ImagePullBackOff with the
// texts taken down from real nodes; takes a patched image of a waiting Pod at once; shows a tag as the image of a container that was started by digest.
//
// It does not: execute anything (a container's end is guessed from its command line, see container.ts), admit Pods by resources, evict, collect images,
// check credentials again for an image that is present (KEP-2535), write Events, serve logs or exec, probe (startup and readiness probes pass after a
// second), mount anything (absent Secrets or claims do not keep a Pod from starting).
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ClusterClient, type Raw } from '../../cluster/client.js';
import { realClock } from './clock.js';
import { SharedLink } from './link.js';
import { FakeNode } from './node.js';
import { RegistryReader } from './registry.js';
import type { Settings } from './settings.js';
import type { World } from './store.js';

const settings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Settings;
const client = new ClusterClient(settings.kubeconfig);
const counted = { total: 0, byNode: {} as Record<string, number>, byImage: {} as Record<string, number> };
const link = new SharedLink(settings.linkMbit, realClock);
const world: World = { clock: realClock, link, registry: new RegistryReader(settings.registries), count };
const nodes = new Map(settings.names.map((name, index) => [name, new FakeNode({ name, index, world, client, settings })]));

function count(node: string, image: string, bytes: number): void {
  counted.total += bytes;
  counted.byNode[node] = (counted.byNode[node] ?? 0) + bytes;
  counted.byImage[image] = (counted.byImage[image] ?? 0) + bytes;
}

interface Handlers {
  seen: (object: Raw) => void;
  gone: (uid: string) => void;
  known: () => string[];
}

/** Follows a resource for good. Each new watch begins with all objects, so that what vanished in a gap is noticed at its bookmark. */
async function follow(kind: string, handlers: Handlers): Promise<never> {
  for (;;) {
    await watchOnce(kind, handlers).catch((error: Error) => console.error(`watch of ${kind}: ${error.message}`));
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function watchOnce(kind: string, { seen, gone, known }: Handlers): Promise<void> {
  let initial: Set<string> | undefined = new Set();
  for await (const { type, object } of client.watch(kind)) {
    initial?.add(object.metadata.uid);
    if (type === 'DELETED') gone(object.metadata.uid);
    else if (type !== 'BOOKMARK') seen(object);
    else if (initial) {
      const present = initial;
      initial = undefined;
      known()
        .filter((uid) => !present.has(uid))
        .forEach(gone);
    }
  }
}

const nodeUids = new Map<string, string>();
const followNodes = (): Promise<never> =>
  follow('v1/Node', {
    seen: (node) => {
      nodeUids.set(node.metadata.uid, node.metadata.name);
      nodes.get(node.metadata.name)?.onNode(node);
    },
    gone: (uid) => {
      nodes.get(nodeUids.get(uid) ?? '')?.onNode(undefined);
      nodeUids.delete(uid);
    },
    known: () => [...nodeUids.keys()],
  });
const followPods = (): Promise<never> =>
  follow('v1/Pod', {
    seen: (pod) => nodes.get(pod['spec'].nodeName)?.onPod(pod),
    gone: (uid) => nodes.forEach((node) => node.onPodGone(uid)),
    known: () => [...nodes.values()].flatMap((node) => node.podUids()),
  });

/** For the tests: what the link carried, a node's images, and forgetting them. */
const control = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const store = nodes.get(searchParams.get('node') ?? '')?.store;
  const answer = (body: unknown): void => void response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
  if (pathname === '/bytes') {
    link.settle();
    return answer(counted);
  }
  const ofAll = (images: (node: FakeNode) => string[]): object =>
    Object.fromEntries([...nodes].map(([name, node]) => [name, images(node)]));
  if (pathname === '/all-images') return answer(ofAll((node) => node.store.list().flatMap((image) => image.names)));
  if (pathname === '/pulls') return answer(ofAll((node) => node.store.pulling()));
  if (!store) return void response.writeHead(404).end('no such node');
  if (request.method === 'DELETE') {
    const names = searchParams.getAll('image');
    const digests = store.list().filter((image) => image.names.some((name) => names.includes(name)));
    store.drop(names.length > 0 ? digests.map((image) => image.digest) : undefined);
  }
  return answer(store.list().flatMap((image) => image.names));
});

await new Promise<void>((resolve) => control.listen(0, '127.0.0.1', resolve));
// A thousand at once would find the API server deaf.
const unregistered = [...nodes.values()];
const register = async (): Promise<void> => {
  for (let next = unregistered.shift(); next !== undefined; next = unregistered.shift()) await next.register();
};
await Promise.all(Array.from({ length: 16 }, register));
void followNodes();
void followPods();
// Moved into place, so that a reader never sees half a number.
writeFileSync(`${settings.readyFile}.partial`, String((control.address() as AddressInfo).port));
renameSync(`${settings.readyFile}.partial`, settings.readyFile);
