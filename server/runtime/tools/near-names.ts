// Finds names that a mistyped name may have meant.

const MAX_SUGGESTIONS = 3;
/**
 * How many letters are compared with one another: the names of a folder may be many and long, and the server does nothing
 * else meanwhile. These take some 30 ms.
 */
const MAX_COMPARISONS = 2_000_000;

/** The few names most like the wanted one; none when nothing is like it. */
export function nearNames(wanted: string, names: readonly string[]): readonly string[] {
  const target = wanted.toLowerCase();
  const furthest = Math.max(2, Math.floor(target.length / 3));
  let left = MAX_COMPARISONS;
  const distanceTo = (name: string): number => {
    if (stem(target) === stem(name)) return 1;
    left -= target.length * name.length;
    return left < 0 ? Number.POSITIVE_INFINITY : distanceOf(target, name, furthest);
  };
  return names
    .map((name) => ({ name, distance: distanceTo(name.toLowerCase()) }))
    .filter(({ distance }) => distance <= furthest)
    .sort((one, other) => one.distance - other.distance || one.name.localeCompare(other.name))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ name }) => name);
}

function distanceOf(wanted: string, name: string, furthest: number): number {
  if (
    wanted.length >= 3 &&
    (name.includes(wanted) || (stem(name).length >= 3 && wanted.includes(stem(name))))
  )
    return 2;
  // Each letter that one of them has more is a change.
  const isNear = Math.abs(wanted.length - name.length) <= furthest;
  return isNear ? editDistance(wanted, name) : Number.POSITIVE_INFINITY;
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
