// Compares the paths of files with the globs that a model wrote.
import { basename, matchesGlob } from 'node:path';

/** A pattern without a slash means the name at any depth, as in an ignore file. */
export function globMatches(path: string, pattern: string): boolean {
  return pattern.includes('/')
    ? matchesGlob(path, pattern.replace(/^(\.?\/)+/, ''))
    : matchesGlob(basename(path), pattern);
}

/** Which files are searched: as `globMatches`, but names that begin with a dot are as others, and `!` says which are not. */
export function isIncluded(path: string, include: string): boolean {
  if (include.startsWith('!')) return !isIncluded(path, include.slice(1));
  return globMatches(withoutDots(path, beginningOfName), withoutDots(include, beginningInGlob));
}

const beginningOfName = /(?<=^|\/)\.(?=[^./])/g;
/** Within braces and brackets another name begins. */
const beginningInGlob = /(?<=^|[/{,(|])\.(?=[^./])/g;

/** The platform's globs pass over names that begin with a dot unless the pattern says so. */
function withoutDots(path: string, dots: RegExp): string {
  return path.replaceAll(dots, '\u0001');
}
