// Import directions of the source tree: a folder may import only itself and what stands to its left.
//   api <- images <- placement, gangs <- rewrite, preheat (pure) <- registry, kube <- webhook, controller, cli <- processes
const layers = {
  api: [],
  observe: ['api'],
  config: ['api', 'images', 'observe'],
  images: ['api'],
  placement: ['api', 'images'],
  gangs: ['api', 'images'],
  rewrite: ['api', 'images', 'placement', 'gangs'],
  preheat: ['api', 'images', 'placement', 'gangs'],
  registry: ['api', 'images', 'config', 'observe'],
  kube: ['api', 'images', 'observe'],
  webhook: ['api', 'images', 'placement', 'gangs', 'rewrite', 'registry', 'kube', 'config', 'observe'],
  controller: ['api', 'images', 'placement', 'gangs', 'rewrite', 'preheat', 'registry', 'kube', 'config', 'observe'],
  cli: ['api', 'images', 'placement', 'gangs', 'rewrite', 'preheat', 'registry', 'kube', 'config', 'observe'],
};
const pure = '^src/(api|images|placement|gangs|rewrite|preheat/[^/]+[.]ts$)';

export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } } },
    { name: 'main-is-the-root', severity: 'error', from: { path: '^src' }, to: { path: '^src/main[.]ts$' } },
    ...Object.entries(layers).map(([folder, below]) => ({
      name: `${folder}-imports-only-below`,
      severity: 'error',
      from: { path: `^src/${folder}/` },
      to: { path: '^src/', pathNot: `^src/(${[folder, ...below].join('|')})/` },
    })),
    {
      name: 'pure-folders-do-no-io',
      severity: 'error',
      comment: 'network, files, timers and randomness are passed in',
      from: { path: pure },
      to: { path: '^(node:)?(fs|net|http|https|tls|dns|timers|child_process)(/|$)|node_modules/(undici|@kubernetes|pino|p-queue)' },
    },
    {
      name: 'only-kube-loads-client-node',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/kube/' },
      to: { path: 'node_modules/@kubernetes/client-node', dependencyTypesNot: ['type-only'] },
    },
    { name: 'no-src-to-test', severity: 'error', from: { path: '^src' }, to: { path: '^(test|tools|demo)' } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js', '.json'], exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
};
