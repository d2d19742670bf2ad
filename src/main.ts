import { hostname } from 'node:os';
import { basename } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { parseDuration } from './api/duration.js';
import { INSTALL } from './api/names.js';
import { endWithReader } from './cli/end-with-reader.js';
import type { ControllerOptions, WebhookOptions } from './processes/options.js';
import { UsageError } from './processes/usage.js';
import { VERSION } from './version.js';

/** Image of the puller program of this version. */
const PULLER_IMAGE = `ghcr.io/harbinger-dev/puller:v${VERSION}`;

/** Repeated here because the log module would load pino for `--help`. */
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

/** A flag whose value also comes from the environment: --health-port from HARBINGER_HEALTH_PORT. */
function option(flags: string, text: string): Option {
  const made = new Option(flags, text);
  return made.env(`HARBINGER_${made.name().replaceAll('-', '_').toUpperCase()}`);
}

function port(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= 65_535) return value;
  throw new InvalidArgumentError('A port is a whole number from 0 to 65535; 0 picks a free one.');
}

const DAY_MS = 86_400_000;

function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError('A duration is written like 90s, 10m or 1h30m.');
}

const SERVING_NAMES = [`${INSTALL.webhook}.${INSTALL.namespace}.svc`];

/** A list comes from a repeated flag or, in the environment, with commas. The first value replaces the default. */
function names(text: string, before: string[]): string[] {
  return [...(before === SERVING_NAMES ? [] : before), ...text.split(',').filter((part) => part !== '')];
}

/** Flags that all long-running processes share. */
function processCommand(program: Command, name: string, text: string): Command {
  return program
    .command(name)
    .description(text)
    .addOption(option('--kubeconfig <file>', 'how to reach the API server; else KUBECONFIG, else the service account of the Pod'))
    .addOption(option('--namespace <name>', 'namespace that Harbinger is installed in').default(INSTALL.namespace))
    .addOption(option('--config <file>', 'configuration file (HarbingerConfig), read again when it changes; else defaults'))
    .addOption(option('--health-port <port>', 'plain HTTP port of /healthz, /readyz and /metrics').argParser(port).default(8080))
    .addOption(option('--log-level <level>', 'least level of log lines').choices(LEVELS).default('info'))
    .addOption(
      option('--identity <name>', 'name of this replica in Leases').default(
        `${hostname()}_${process.pid}`,
        'host name and process id',
      ),
    );
}

/** Modules of a process are loaded when it runs: `explain` needs no API client, and `--help` needs nothing. */
async function program(argv: readonly string[]): Promise<Command> {
  // kubectl finds plugins by the name of the executable, and people then call it as kubectl does.
  const plugin = basename(argv[1] ?? '').startsWith('kubectl-harbinger');
  const root = new Command(plugin ? 'kubectl harbinger' : 'harbinger')
    .description('Has the images of a gang of Pods on the nodes before the gang is scheduled.')
    .version(VERSION)
    // Wrong usage is told apart from things that went wrong: scripts repeat the one and not the other.
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

  processCommand(root, 'webhook', 'rewrite images of new Pods to known digests and accelerated variants; end overdue holds')
    .addOption(option('--port <port>', 'HTTPS port of the admission webhook').argParser(port).default(8443))
    .addOption(
      option('--serving-name <name>', 'DNS name or IP address that the API server calls; repeat for several')
        .argParser(names)
        .default(SERVING_NAMES, SERVING_NAMES.join(',')),
    )
    .addOption(
      option('--webhook-configuration <name>', 'MutatingWebhookConfiguration whose caBundle is kept').default(
        INSTALL.webhookConfiguration,
      ),
    )
    .addOption(option('--ca-secret <name>', 'Secret that holds the certificate authority').default(INSTALL.caSecret))
    .addOption(
      option('--ca-validity <duration>', 'life of the certificate authority; it is replaced after two thirds')
        .argParser(duration)
        .default(365 * DAY_MS, '8760h'),
    )
    .addOption(
      option('--leaf-validity <duration>', 'life of the server certificate; it is replaced after two thirds')
        .argParser(duration)
        .default(7 * DAY_MS, '168h'),
    )
    .addOption(
      option('--drain-delay <duration>', 'how long a replica that goes down still takes new connections')
        .argParser(duration)
        .default(5_000, '5s'),
    )
    .action(async (options: WebhookOptions) => (await import('./processes/webhook.js')).runWebhook(options));

  processCommand(root, 'controller', 'watch queued gangs and have their images on the nodes before they are scheduled')
    .addOption(option('--puller-image <image>', 'image of the puller program, best with a digest').default(PULLER_IMAGE))
    .addOption(option('--lease-name <name>', 'Lease by which one replica leads').default(INSTALL.controllerLease))
    .action(async (options: ControllerOptions) => (await import('./processes/controller.js')).runController(options));

  const served = argv[2] === 'webhook' || argv[2] === 'controller';
  if (!served) {
    endWithReader(process.stdout, (code) => process.exit(code));
    (await import('./processes/cli.js')).registerCli(root);
  }
  root
    .command('version')
    .description('print the version')
    .action(() => console.log(`harbinger ${VERSION} (node ${process.version})`));
  return root;
}

try {
  await (await program(process.argv)).parseAsync();
} catch (error) {
  // The message names cause and way out; the stack is for us.
  console.error(`harbinger: ${(error as Error).message}`);
  if (process.env['HARBINGER_STACK'] !== undefined) console.error((error as Error).stack);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
