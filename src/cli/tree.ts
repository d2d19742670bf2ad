/** A text with others below it. */
export interface Branch {
  text: string;
  children: Branch[];
}

export const leaf = (text: string): Branch => ({ text, children: [] });

/** A tree as `tree` draws it; ends with a newline. */
export function drawTree(root: Branch): string {
  return `${lines(root).join('\n')}\n`;
}

function lines({ text, children }: Branch): string[] {
  const below = children.flatMap((child, i) => {
    const last = i === children.length - 1;
    return lines(child).map((line, n) => `${n > 0 ? (last ? '   ' : '│  ') : last ? '└─ ' : '├─ '}${line}`);
  });
  return [text, ...below];
}
