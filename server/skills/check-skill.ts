/** Looks whether files are a skill that may be kept, and says all that is wrong with them at once. */
import { basename } from 'node:path';
import { checkSkillText } from '../runtime/runtime.ts';
import type { SkillContent } from '../store/store.ts';
import { byPath, digestOf, fileFaults, type SkillEntry, type SkillFault, sha256Of } from './skill-files.ts';
import { isZip, readZip } from './zip-archive.ts';

export interface CheckedSkill {
  /** Null where anything is wrong. */
  readonly skill: SkillContent | null;
  /** As far as they can be told. */
  readonly name: string | null;
  readonly description: string | null;
  readonly files: number;
  readonly size: number;
  readonly faults: readonly SkillFault[];
}

const instructions = 'SKILL.md';

/** The text of a SKILL.md, or a zip archive. */
export function checkUpload(bytes: Uint8Array): CheckedSkill {
  if (!isZip(bytes)) return checkSkill([{ path: instructions, executable: false, content: bytes }], null);
  const { entries, faults } = readZip(bytes);
  const folder = commonFolder(entries);
  const checked = checkSkill(
    folder === null ? entries : entries.map((one) => ({ ...one, path: one.path.slice(folder.length + 1) })),
    folder,
  );
  return faults.length === 0
    ? checked
    : { ...checked, skill: null, faults: [...faults, ...(entries.length > 0 ? checked.faults : [])] };
}

/** The one folder that an archive has, where SKILL.md is not at its top. */
function commonFolder(entries: readonly SkillEntry[]): string | null {
  const tops = new Set(entries.map(({ path }) => path.split('/')[0] ?? ''));
  const [top] = tops;
  const isWithin =
    tops.size === 1 && top !== undefined && entries.every(({ path }) => path.startsWith(`${top}/`));
  return isWithin && top !== '' && top !== '..' && top !== '.' ? top : null;
}

/** The folder is the one they lie in; null where that has no name of its own. */
export function checkSkill(entries: readonly SkillEntry[], folder: string | null): CheckedSkill {
  const text = entries.find(({ path }) => path === instructions);
  const checked = text && checkSkillText(text.content);
  const named = checked && 'name' in checked ? checked : null;
  const sizes = entries.map(({ path, content }) => ({ path, size: content.length }));
  const faults = [...fileFaults(sizes), ...textFaults(checked?.faults), ...nameFaults(named?.name, folder)];
  const files = entries
    .map(({ path, executable, content }) => ({ path, executable, content, sha256: sha256Of(content) }))
    .sort(byPath);
  const size = files.reduce((sum, { content }) => sum + content.length, 0);
  const whole = faults.length === 0 && named;
  return {
    skill: whole
      ? { name: whole.name, description: whole.description, digest: digestOf(whole.name, files), size, files }
      : null,
    name: named?.name ?? null,
    description: named?.description ?? null,
    files: files.length,
    size,
    faults,
  };
}

function textFaults(
  faults: readonly { readonly line: number | null; readonly message: string }[] | undefined,
): SkillFault[] {
  if (!faults)
    return [
      {
        path: null,
        line: null,
        code: 'no_instructions',
        message: 'there is no SKILL.md at the top or in the one folder',
      },
    ];
  return faults.map(({ line, message }) => ({ path: instructions, line, code: 'front_matter', message }));
}

function nameFaults(name: string | undefined, folder: string | null): SkillFault[] {
  if (name === undefined || folder === null || basename(folder) === name) return [];
  const message = `its name is ${name}, but its folder is ${basename(folder)}: they have to be the same`;
  return [{ path: instructions, line: null, code: 'name', message }];
}
