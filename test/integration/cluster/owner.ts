// A process that owns a cluster and does nothing: cluster.test.ts kills it.
import { Cluster } from '../../cluster/cluster.js';

await Cluster.start({ name: process.argv[2] ?? 'owner', registry: false });
setInterval(() => undefined, 60_000);
