/**
 * Cases of other people's operators, clusters and registries that have to hold: `A` are workloads as their operators make them, `H` are
 * complaints about comparable tools with the outcome that is right, `R` are exchanges with registries. The title of the one test
 * that proves a case carries its id; the gaps in the numbers are cases of other parts of Harbinger.
 */
export const REQUIRED_CASES: readonly string[] = [
  ...ids('A', [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35]),
  ...ids('A', [36, 37, 38, 39, 40, 41, 42, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 57, 59, 60]),
  ...ids('H', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30]),
  ...ids('H', [31, 32, 33, 37, 38, 39, 40, 41, 42, 43, 44]),
  ...ids('R', [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 20, 22, 23, 24, 26, 27, 29, 30, 31]),
];

function ids(letter: 'A' | 'H' | 'R', numbers: readonly number[]): string[] {
  return numbers.map((n) => `${letter}-${String(n).padStart(2, '0')}`);
}
