import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RUN_ROOT } from './names.js';

// What a kubelet sets on its machine when it starts (SetupKernelTunables in pkg/kubelet/cm), and does not undo.
const SET_BY_KUBELETS = [
  'vm/overcommit_memory',
  'vm/panic_on_oom',
  'kernel/panic',
  'kernel/panic_on_oops',
  'kernel/keys/root_maxkeys',
  'kernel/keys/root_maxbytes',
];
const SAVED = join(RUN_ROOT, 'sysctls.json');

/** Notes the machine's own values before the first kubelet starts; later calls leave the note as it is. */
export function rememberSysctls(): void {
  if (existsSync(SAVED)) return;
  mkdirSync(RUN_ROOT, { recursive: true });
  const present = SET_BY_KUBELETS.filter((name) => existsSync(join('/proc/sys', name)));
  writeFileSync(
    SAVED,
    JSON.stringify(Object.fromEntries(present.map((name) => [name, readFileSync(join('/proc/sys', name), 'utf8')]))),
  );
}

/** Puts them back when no node of any cluster is left on the machine. Returns those that could not be. */
export function restoreSysctls(): string[] {
  if (!existsSync(SAVED) || readdirSync(RUN_ROOT).some((name) => name.startsWith('hb-'))) return [];
  const saved = JSON.parse(readFileSync(SAVED, 'utf8')) as Record<string, string>;
  const failed = Object.entries(saved).filter(([name, value]) => {
    try {
      writeFileSync(join('/proc/sys', name), value);
      return false;
    } catch {
      return true;
    }
  });
  rmSync(SAVED);
  return failed.map(([name]) => `sysctl ${name}`);
}
