/** Reads settings of git: which it takes from a file, and their values. */

export interface GitSetting {
  /** In small letters, without the part of a section that is in quotation marks: `core.hookspath`, `remote.url`. */
  readonly name: string;
  readonly value: string;
}

/** Each that has a value, also where it stands behind the heads of sections, or goes on behind a backslash. */
export function settingsIn(text: string): readonly GitSetting[] {
  let section = '';
  return [...text.matchAll(line)].flatMap(([, heads = '', key, value = '']) => {
    section = heads === '' ? section : sectionOf(heads);
    return key === undefined ? [] : [{ name: `${section}.${key}`.toLowerCase(), value: textOf(value) }];
  });
}

const line =
  /^[ \t\uFEFF]*((?:\[(?:"(?:\\.|[^"\\\n])*"|[^\]"\n])*\][ \t]*)*)(?:([a-z][a-z0-9-]*)[ \t]*=[ \t]*((?:\\\r?\n|\\.|[^\\\n])*))?/gim;

/** The last of them counts; one in quotation marks may hold brackets itself. */
function sectionOf(heads: string): string {
  const names = heads.replace(/"(?:\\.|[^"\\])*"/g, '').match(/[\w.-]+/g);
  return names?.at(-1) ?? '';
}

/** What git takes a value for: without quotation marks, joined lines and the remark behind it. */
function textOf(written: string): string {
  return written
    .replace(
      /"((?:\\[\s\S]|[^"\\])*)"|[#;].*|\\[\s\S]/g,
      (piece, quoted?: string) => quoted ?? (piece.startsWith('\\') ? piece : ''),
    )
    .replace(/\\(?:\r?\n|(.))/g, '$1')
    .trim();
}
