// Finds names that a mistyped name may have meant.

const MAX_SUGGESTIONS = 3;

/** The few names most like the wanted one; none when nothing is like it. */
export function nearNames(wanted: string, names: readonly string[]): readonly string[] {
  const target = wanted.toLowerCase();
  return names
    .map((name) => ({ name, distance: distanceOf(target, name.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, Math.floor(target.length / 3)))
    .sort((one, other) => one.distance - other.distance || one.name.localeCompare(other.name))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ name }) => name);
}

function distanceOf(wanted: string, name: string): number {
  if (stem(wanted) === stem(name)) return 1;
  if (
    wanted.length >= 3 &&
    (name.includes(wanted) || (stem(name).length >= 3 && wanted.includes(stem(name))))
  )
    return 2;
  return editDistance(wanted, name);
}

function stem(name: string): string {
  return name.replace(/(?<=.)\.[^.]*$/, '');
}

/** Levenshtein's distance, row by row. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      // The indexes lie inside both rows; the fallbacks only satisfy the checker.
      next.push(Math.min((row[j - 1] ?? 0) + same, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
