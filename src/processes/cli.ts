import { InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';
import { INSTALL } from '../api/names.js';
import type { ExplainFlags } from './commands/explain.js';
import { parseDuration } from '../api/duration.js';
import type { RecordFlags } from './commands/record.js';
import type { ReleaseFlags } from './commands/release.js';
import type { SimulateFlags } from './commands/simulate.js';

const FAIL_ON = ['changed', 'left', 'problems'];

/** Lists have no default, or the help would print it. */
const append = (value: string, before: string[] = []): string[] => [...before, value];

function label(text: string, before: Record<string, string> = {}): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals <= 0) throw new InvalidArgumentError('A label is written key=value.');
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}

function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError('A duration is written like 90s, 10m or 1h30m.');
}

function platform(text: string, before: string[] = []): string[] {
  if (!/^[a-z0-9]+\/[a-z0-9_]+(\/[a-z0-9]+)?$/.test(text))
    throw new InvalidArgumentError('A platform is written os/architecture, for example linux/amd64.');
  return [...before, text];
}

/** Flags that say what decisions go by. */
function groundFlags(command: Command): Command {
  return command
    .option(
      '-p, --policy <file>',
      'AccelerationPolicy objects of a file or folder, instead of those of a cluster; repeatable',
      append,
    )
    .option('-l, --namespace-label <key=value>', 'label that namespaces are taken to have; repeatable', label)
    .option('--platform <os/arch>', 'platform of the nodes, instead of what is known of them; repeatable', platform)
    .option('--nodes <file>', `nodes to go by: output of kubectl get nodes -o yaml, or ConfigMap ${INSTALL.nodeClasses}`)
    .option('--assume-capable <format>', 'take it that all nodes run the format, for example nydus; repeatable', append)
    .option('--offline <dir>', 'recorded answers of registries (*.json), instead of asking registries')
    .option('--config <file>', 'configuration file (HarbingerConfig), instead of that of the cluster')
    .option('--docker-config <file>', 'docker config file with credentials for the registries that are asked')
    .option(
      '--kubeconfig <file>',
      'go by this cluster; without it, KUBECONFIG or ~/.kube/config where no --policy, --nodes or --offline is given',
    )
    .option('--context <name>', 'context of the kubeconfig')
    .option('--installed-in <namespace>', 'namespace that Harbinger is installed in', INSTALL.namespace);
}

const EXPLAIN_HELP = `
Everything is judged by the same functions as in the webhook. What could not be read stands in front, in lines that begin with "!".

Exit codes: 0 explained (whatever came out), 1 error, 2 wrong usage.

Examples:
  harbinger explain registry.example.com/ml/train:2.4                        by the cluster of the kubeconfig
  harbinger explain -n research --pod job.yaml                               every image of a job, and the patch
  kubectl get pod train-0 -o yaml | harbinger explain --pod -                a Pod that exists
  harbinger explain IMAGE -p policy.yaml --assume-capable nydus              without any cluster
  harbinger explain IMAGE -p examples/policy.yaml --offline examples/registry  without any network
`;

const SIMULATE_HELP = `
Finds Pods and Pod templates in YAML and JSON files, Lists included, and says what would become of their images.

Exit codes: 0 nothing that --fail-on asks for, 1 error, 2 wrong usage, 3 --fail-on matched.
  changed   an image would be changed
  left      a policy speaks of an image, and it would be left alone all the same
  problems  a file cannot be read, or an image cannot be looked up (unparsable, registry-error, auth-denied, ...)

Examples:
  harbinger simulate -f manifests/ -p policy.yaml
  kustomize build overlays/prod | harbinger simulate -f - -n prod --fail-on problems
  helm template ./chart | harbinger simulate -f - -o json | jq .summary
`;

const RECORD_HELP = `
Pushes, for each image of VARIANT, an artifact that refers to it and names the digest of SOURCE, so that policies with freshness Exact use
variants of converters that leave no record. Nothing is pushed for an image that shows by itself what it was made from.
Say it only of a variant that you have just made from SOURCE: Harbinger believes it.

Exit codes: 0 recorded, or no record needed; 1 error, or something speaks against it; 2 wrong usage.

Examples:
  harbinger record registry.example.com/ml/eval:1.8 registry.example.com/ml/eval:1.8-esgz
  ctr-remote image convert --estargz --oci $SRC $DST && ctr-remote image push $DST && harbinger record $SRC $DST
  harbinger record --print-annotation $SRC     the annotation for converters that can write one
`;

const RELEASE_HELP = `
Lets gangs start that Harbinger holds for their images, with the rights of whoever asks: those of kubectl. A gang is named by its job or by its Kueue
Workload. It is never held again; its images are warmed on. Works with Harbinger's controller dead as well, as long as a webhook replica lives.

Needs the rights to list and patch workloads.kueue.x-k8s.io in the namespace; for a job that is gated (kueue.x-k8s.io/admission-gated-by) to get
and patch the job.

Exit codes: 0 let go, or not held; 1 error, no such gang, or not allowed; 2 wrong usage; 3 held still when the time of --wait was up.

Examples:
  kubectl harbinger release train                 the gang of job train, of whatever kind
  kubectl harbinger release pytorchjob/train -n research --wait
  kubectl harbinger release --all --dry-run       what is held in the namespace
  kubectl harbinger release --all -A              everything
`;

/** Adds the commands for people. Heavy imports belong into their actions, so that `--help` stays quick. */
export function registerCli(program: Command): void {
  groundFlags(
    program
      .command('explain')
      .description('say what would happen to an image in a new Pod, and why, step by step')
      .argument('[image]', 'image as a Pod names it; with --pod, only containers that have it')
      .option(
        '-n, --namespace <name>',
        'namespace of the Pod where its file names none; else that of the kubeconfig context, else default',
      )
      .option('--pod <file>', 'explain the Pods of this file (- is standard input): Pods, or anything with Pod templates'),
  )
    .addOption(new Option('-o, --output <form>', 'how to print it').choices(['tree', 'json', 'yaml']).default('tree'))
    .addHelpText('after', EXPLAIN_HELP)
    .action(async (image: string | undefined, flags: ExplainFlags) =>
      (await import('./commands/explain.js')).runExplain(image, flags),
    );

  groundFlags(
    program
      .command('simulate')
      .description('say what would change in a folder of manifests')
      .option('-f, --filename <path>', 'file, folder (with all below it) or - for standard input; repeatable', append)
      .option('-n, --namespace <name>', 'namespace of objects that name none; else that of the kubeconfig context, else default'),
  )
    .addOption(new Option('-o, --output <form>', 'how to print it').choices(['text', 'json', 'yaml']).default('text'))
    .addOption(
      new Option('--fail-on <what>', 'exit with 3 if there is any; repeatable')
        .choices(FAIL_ON)
        .argParser((value: string, before: string[] | undefined) => {
          if (!FAIL_ON.includes(value)) throw new InvalidArgumentError(`It is ${FAIL_ON.join(', ')}.`);
          return append(value, before);
        }),
    )
    .addHelpText('after', SIMULATE_HELP)
    .action(async (flags: SimulateFlags) => (await import('./commands/simulate.js')).runSimulate(flags));

  program
    .command('release')
    .description('let gangs start that are held for their images')
    .argument('[gang...]', '[KIND/]NAME of a job, or name of its Workload')
    .option('--all', 'every gang that is held in the namespace')
    .option('-n, --namespace <name>', 'namespace of the gangs; else that of the kubeconfig context, else default')
    .option('-A, --all-namespaces', 'with --all: in all namespaces')
    .option('--dry-run', 'only say what is held')
    .option('--wait', 'wait until nothing of Harbinger keeps them any more')
    .addOption(new Option('--timeout <duration>', 'with --wait: how long').argParser(duration).default(60_000, '60s'))
    .option('--kubeconfig <file>', 'how to reach the cluster; else KUBECONFIG, else ~/.kube/config')
    .option('--context <name>', 'context of the kubeconfig')
    .addOption(new Option('-o, --output <form>', 'how to print it').choices(['text', 'json', 'yaml']).default('text'))
    .addHelpText('after', RELEASE_HELP)
    .action(async (gangs: string[], flags: ReleaseFlags) => (await import('./commands/release.js')).runRelease(gangs, flags));

  program
    .command('record')
    .description('write down beside a variant which image it was made from')
    .argument('<source>', 'the image that was converted')
    .argument('[variant]', 'what it was converted to, in the same registry')
    .option('--platform <os/arch>', 'record for this platform of the source only; repeatable', platform)
    .option('--print-annotation', 'push nothing; print the annotation that says the same, to be given to the converter')
    .option('--force', 'write the record although the variant is of no known format or does not look like the source')
    .option('--config <file>', 'configuration file (HarbingerConfig) with the registry: authorities, plain HTTP')
    .option(
      '--docker-config <file>',
      'docker config file with a credential that may push; else DOCKER_CONFIG, else ~/.docker/config.json',
    )
    .addOption(new Option('-o, --output <form>', 'how to print it').choices(['text', 'json', 'yaml']).default('text'))
    .addHelpText('after', RECORD_HELP)
    .action(async (source: string, variant: string | undefined, flags: RecordFlags) =>
      (await import('./commands/record.js')).runRecord({ source, variant }, flags),
    );
}
