/** Longest output that a page shows; what is longer is cut at a line and marked. */
const MAX_LINES = 60;

/**
 * Replaces what stands between each `<!-- output: COMMAND -->` and the next `<!-- /output -->` by the output of that command.
 * Blocks whose command is not in `outputs` stay as they are and are listed in `missing`. Applying it twice changes nothing more.
 */
export function fillOutputs(page: string, outputs: ReadonlyMap<string, string>): { text: string; missing: string[] } {
  const missing: string[] = [];
  const text = page.replaceAll(
    /(<!-- output: (.*?) -->\n)[\s\S]*?(<!-- \/output -->)/g,
    (block: string, open: string, command: string, close: string) => {
      const output = outputs.get(command);
      if (output === undefined) {
        missing.push(command);
        return block;
      }
      return `${open}\n\`\`\`console\n$ ${command}\n${cut(output)}\n\`\`\`\n\n${close}`;
    },
  );
  return { text, missing };
}

function cut(output: string): string {
  const lines = output
    .trimEnd()
    .split('\n')
    .map((line) => line.trimEnd());
  return lines.length <= MAX_LINES
    ? lines.join('\n')
    : [...lines.slice(0, MAX_LINES), `... (${lines.length - MAX_LINES} more lines)`].join('\n');
}
