/** The names that a path has by the links on its way. */
import { lstatSync, readlinkSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const mostLinks = 40;

/** The path itself, and by each link where it leads. What is not there has no links, but its folders may. */
export function namesAlong(path: string): readonly string[] {
  const names = [path];
  while (names.length <= mostLinks) {
    const name = names.at(-1) ?? path;
    const link = firstLink(name);
    if (link === null) break;
    names.push(join(resolve(dirname(link), readlinkSync(link)), relative(link, name)));
  }
  return names;
}

function firstLink(path: string): string | null {
  const folder = dirname(path);
  if (folder === path) return null;
  const above = firstLink(folder);
  if (above !== null) return above;
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ? path : null;
}
