import { Option } from 'commander';
import type { Command } from 'commander';

interface ExplainFlags {
  policy: string[];
  namespaceLabel: Record<string, string>;
  platform: string[];
  offline?: string;
  config?: string;
  output: 'tree' | 'json';
}

const append = (value: string, before: string[]): string[] => [...before, value];

function label(text: string, before: Record<string, string>): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals <= 0) throw new Error(`--namespace-label ${text}: write key=value`);
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}

/** Adds the commands for people. Heavy imports belong into their actions, so that `--help` stays quick. */
export function registerCli(program: Command): void {
  program
    .command('explain')
    .description('say what would happen to an image in a new Pod, and why, step by step')
    .argument('<image>', 'image as a Pod names it')
    .option('-p, --policy <file>', 'YAML file with AccelerationPolicy objects; repeat for several', append, [])
    .option('-l, --namespace-label <key=value>', 'label of the namespace of the Pod; repeat for several', label, {})
    .option(
      '--platform <os/arch>',
      'platform of the nodes, for example linux/amd64; repeat for several; all of the image when absent',
      append,
      [],
    )
    .option('--offline <dir>', 'answer from recorded registry answers (*.json) instead of asking registries')
    .option(
      '--config <file>',
      'configuration file (HarbingerConfig) with registries; without it the registry of the image is asked over HTTPS',
    )
    .addOption(new Option('-o, --output <form>', 'how to print it').choices(['tree', 'json']).default('tree'))
    .action(runExplain);
}

async function runExplain(image: string, flags: ExplainFlags): Promise<void> {
  const [{ explain }, { renderTree }, { readPolicies }] = await Promise.all([
    import('../cli/explain.js'),
    import('../cli/explain-text.js'),
    import('../cli/policies.js'),
  ]);
  const policies = await readPolicies(flags.policy);
  const { port, close } = await openRegistry(image, flags);
  try {
    const platforms = flags.platform.length === 0 ? {} : { platforms: flags.platform };
    const explanation = await explain({ image, policies, namespaceLabels: flags.namespaceLabel, port, ...platforms });
    process.stdout.write(flags.output === 'json' ? `${JSON.stringify(explanation, undefined, 2)}\n` : renderTree(explanation));
  } finally {
    await close();
  }
}

/** Recorded answers, or real registries by the configuration. */
async function openRegistry(image: string, { offline, config }: ExplainFlags) {
  if (offline !== undefined) {
    const { RecordedRegistry } = await import('../cli/recorded-registry.js');
    return { port: await RecordedRegistry.read(offline), close: () => Promise.resolve() };
  }
  const [{ createRegistry }, { loadConfig, parseConfig }, { createLog }, { Metrics }, { systemClock }, { parseReference }] =
    await Promise.all([
      import('../registry/index.js'),
      import('../config/load.js'),
      import('../observe/log.js'),
      import('../observe/metrics.js'),
      import('../observe/clock.js'),
      import('../images/reference.js'),
    ]);
  const parsed = parseReference(image);
  // Someone who types a name at a shell means that registry to be asked; the processes ask only what is configured.
  const named = parsed.ok ? JSON.stringify({ registries: [{ host: parsed.reference.registry }] }) : '';
  const settings = config === undefined ? parseConfig(named, 'the image') : await loadConfig(config);
  const port = createRegistry(settings, {
    log: createLog({ level: 'warn', name: 'explain' }),
    metrics: new Metrics(),
    clock: systemClock,
  });
  return { port, close: () => port.close() };
}
