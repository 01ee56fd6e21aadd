/** The files of a skill: which names and sizes may be kept, and the digest that tells them from all others. */
import { createHash } from 'node:crypto';

/** A file as it came. */
export interface SkillEntry {
  readonly path: string;
  readonly executable: boolean;
  readonly content: Uint8Array;
}

/** One thing that is wrong. */
export interface SkillFault {
  /** The file, or the entry of the archive; null where it is about the whole. */
  readonly path: string | null;
  readonly line: number | null;
  readonly code: string;
  /** Without its full stop. */
  readonly message: string;
}

/** What instructions with their scripts and references stay far below; a program belongs into a package. */
export const mostFiles = 200;
export const mostFileBytes = 1024 * 1024;
export const mostBytes = 4 * 1024 * 1024;
const longestPath = 200;
const deepest = 8;

/** As text is compared on file systems that do not tell capitals, or one way of writing an accent from another. */
function sameName(path: string): string {
  return path.normalize('NFC').toLowerCase();
}

/** What nobody can be misled by: no way out of the folder, no sign that is not seen, no name that a system or git gives a meaning. */
function pathFault(path: string): string | null {
  const parts = path.split('/');
  if (path === '') return 'has no name';
  if (path.startsWith('/') || /^[a-zA-Z]:/.test(path)) return 'is an absolute path';
  if (path.includes('\\')) return 'has a backslash in its name';
  if (parts.includes('..')) return 'leads out of the folder';
  if (parts.some((part) => part === '' || part === '.')) return 'has an empty part in its name';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(path) || !path.isWellFormed())
    return 'has signs in its name that cannot be seen';
  if (parts.some((part) => part.toLowerCase() === '.git')) return 'has a part .git, which git obeys';
  if (parts.some((part) => /[. ]$/.test(part))) return 'has a part that ends with a dot or a blank';
  if (path.length > longestPath) return `has a name of more than ${longestPath} characters`;
  if (parts.length > deepest) return `lies more than ${deepest} folders deep`;
  return null;
}

/** All that is wrong with the files as such, which needs not to have been read for it. */
export function fileFaults(
  entries: readonly { readonly path: string; readonly size: number }[],
): SkillFault[] {
  const faults: SkillFault[] = [];
  const add = (path: string | null, code: string, message: string) =>
    faults.push({ path, line: null, code, message });
  if (entries.length > mostFiles) add(null, 'too_many_files', `there are more than ${mostFiles} files`);
  const total = entries.reduce((sum, { size }) => sum + size, 0);
  if (total > mostBytes) add(null, 'too_large', `the files have more than ${mostBytes} bytes together`);
  const seen = new Set<string>();
  const folders = new Set(entries.flatMap(({ path }) => foldersOf(sameName(path))));
  for (const { path, size } of entries) {
    const fault = pathFault(path);
    if (fault !== null) add(path, 'path', fault);
    if (size > mostFileBytes) add(path, 'too_large', `has more than ${mostFileBytes} bytes`);
    const name = sameName(path);
    if (seen.has(name) || folders.has(name)) add(path, 'path', 'has the name of another file or folder');
    seen.add(name);
  }
  return faults;
}

/** Not the deeper ones: such a path is refused, and one of thousands of parts would make as many long names. */
function foldersOf(path: string): string[] {
  const parts = path.split('/', deepest + 1).slice(0, -1);
  return parts.map((_part, index) => parts.slice(0, index + 1).join('/'));
}

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Of the name, the paths, the contents, and which of them are programs. */
export function digestOf(
  name: string,
  files: readonly { readonly path: string; readonly sha256: string; readonly executable: boolean }[],
): string {
  const told = files.map(({ path, sha256, executable }) => [path, sha256, executable]);
  return sha256Of(Buffer.from(JSON.stringify([name, told])));
}

/** In one order, whatever order they came in. */
export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : 1;
}
