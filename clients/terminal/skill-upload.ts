/** A skill on its way to the service: a SKILL.md or a zip archive as it is, a folder packed into one. */
import type { Stats } from 'node:fs';
import { lstat, readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { CommandFailure, exitCodes } from './failures.ts';

export interface SkillUpload {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where a person finds what the service calls by a path in the skill. */
  placeOf(path: string): string;
}

/** What no person has written, and what git would obey. */
const passedBy = new Set(['.git', '.DS_Store', 'node_modules', '__pycache__']);
/** Far more than the service takes, so that it can say what is too much; and not a whole disk. */
const mostBytes = 32 * 1024 * 1024;
const instructions = 'SKILL.md';

/** @param named - A folder with a SKILL.md, a SKILL.md, or a zip archive. */
export async function readSkill(named: string): Promise<SkillUpload> {
  const path = resolve(named);
  const state = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new CommandFailure(`${named} cannot be read: ${error.message}.`, exitCodes.usage);
  });
  if (state.isDirectory()) return await packed(path, named);
  requireSmall(state.size, named);
  const bytes = Uint8Array.from(await readFile(path));
  const isArchive = bytes[0] === 0x50 && bytes[1] === 0x4b;
  return { bytes, placeOf: (inside) => (isArchive ? `${named}: ${inside}` : named) };
}

/** The part of a form that holds it; it comes last, as the operations want it. */
export function formWith({ bytes }: SkillUpload): (words: Record<string, unknown>) => FormData {
  return ({ file: _, ...words }) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(words)) form.append(name, String(value));
    form.append('file', new Blob([bytes]), 'skill');
    return form;
  };
}

async function packed(folder: string, named: string): Promise<SkillUpload> {
  const files = await filesIn(folder, '');
  if (!files.has(instructions))
    throw new CommandFailure(
      `There is no ${instructions} in ${named}: a skill is a folder with one.`,
      exitCodes.usage,
    );
  requireSmall(
    [...files.values()].reduce((sum, { size }) => sum + size, 0),
    named,
  );
  const top = basename(folder);
  const entries = await Promise.all(
    [...files].map(async ([path, { mode }]) => {
      // The upper half holds the mode where the archive says that it comes from Unix.
      const attributes = { os: 3, attrs: mode * 0x10000 };
      return [`${top}/${path}`, [Uint8Array.from(await readFile(join(folder, path))), attributes]] as const;
    }),
  );
  const { zipSync } = await import('fflate');
  const bytes = Uint8Array.from(
    zipSync(Object.fromEntries(entries.map(([path, entry]) => [path, [...entry]]))),
  );
  const inFolder = (path: string) => (path.startsWith(`${top}/`) ? path.slice(top.length + 1) : path);
  return { bytes, placeOf: (inside) => join(named, inFolder(inside)) };
}

/** By their path in it. Links are refused: what they lead to may be anything. */
async function filesIn(folder: string, below: string): Promise<Map<string, Stats>> {
  const found = new Map<string, Stats>();
  for (const name of (await readdir(join(folder, below))).sort()) {
    if (passedBy.has(name)) continue;
    const path = join(below, name);
    const state = await lstat(join(folder, path));
    if (state.isDirectory()) for (const [file, its] of await filesIn(folder, path)) found.set(file, its);
    else if (state.isFile()) found.set(path, state);
    else
      throw new CommandFailure(
        `${join(folder, path)} is a link or no file at all: put the file itself there.`,
        exitCodes.usage,
      );
    if (found.size > mostFiles) throw tooMuch(folder);
  }
  return found;
}

const mostFiles = 5000;

function requireSmall(size: number, named: string): void {
  if (size > mostBytes) throw tooMuch(named);
}

function tooMuch(named: string): CommandFailure {
  return new CommandFailure(
    `${named} is too large for a skill, which has at most 200 files and 4 MiB. Is it the right one?`,
    exitCodes.usage,
  );
}
