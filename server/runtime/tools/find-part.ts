/** Finds an exact piece of text in a longer one, in time that grows with the two and not with their product. */

/** Where it begins, from there on; -1 where it is not. */
export type FindPart = (text: string, from: number) => number;

/** The engine's own search keeps tables for so many letters; of a longer part it compares all of them at each place. */
const longestForEngine = 250;

/** For one part, in whichever texts. */
export function finderOf(part: string): FindPart {
  if (part.length <= longestForEngine) return (text, from) => text.indexOf(part, from);
  const shorter = bordersOf(part);
  return (text, from) => {
    let known = 0;
    for (let at = from; at < text.length; at += 1) {
      const letter = text.charCodeAt(at);
      while (known > 0 && part.charCodeAt(known) !== letter) known = shorter[known - 1] ?? 0;
      if (part.charCodeAt(known) === letter) known += 1;
      if (known === part.length) return at - known + 1;
    }
    return -1;
  };
}

/** For each begin of the part: how long a shorter begin is that it ends with. By Knuth, Morris and Pratt. */
function bordersOf(part: string): Uint32Array {
  const shorter = new Uint32Array(part.length);
  let known = 0;
  for (let at = 1; at < part.length; at += 1) {
    const letter = part.charCodeAt(at);
    while (known > 0 && part.charCodeAt(known) !== letter) known = shorter[known - 1] ?? 0;
    if (part.charCodeAt(known) === letter) known += 1;
    shorter[at] = known;
  }
  return shorter;
}

/** How often it is there, no two of them overlapping. */
export function countOf(text: string, part: string): number {
  const find = finderOf(part);
  let count = 0;
  for (let at = find(text, 0); at !== -1; at = find(text, at + part.length)) count += 1;
  return count;
}

/** Whether it is there at all. */
export function holds(text: string, part: string): boolean {
  return part.length <= text.length && finderOf(part)(text, 0) !== -1;
}

/** The text with another in the place of each. */
export function withAll(text: string, part: string, other: string): string {
  if (part.length <= longestForEngine) return text.split(part).join(other);
  const find = finderOf(part);
  const pieces: string[] = [];
  let from = 0;
  for (let at = find(text, 0); at !== -1; at = find(text, from)) {
    pieces.push(text.slice(from, at));
    from = at + part.length;
  }
  return [...pieces, text.slice(from)].join(other);
}
