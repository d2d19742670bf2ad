/** The command cannot be understood; it ends with exit code 2, as it does for flags that are not known. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
