/** Changes one setting in a file that people write by hand: all the rest of it stays as it is. */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Diagnostic, SettingsError } from '../diagnostic.ts';
import { readDocument } from '../document.ts';
import { makeFolder } from '../files/make-folder.ts';
import { writeProjectIgnore } from '../files/project-ignore.ts';
import { newFileText, schemaBeside, writeSchema } from '../files/schema-copy.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';
import { nearest } from '../nearest.ts';
import { normalize } from '../normalize.ts';
import type { ParsedSettings } from '../parse.ts';
import { isObject, pointerKeys, pointerTo, valueAt } from '../pointer.ts';
import { keyToPointer, pointerToKey } from '../setting-keys.ts';
import { type Review, reviewLayer } from '../trust/trust-review.ts';
import { assertNoWorse } from './edit-check.ts';
import { changeFile, type EditableFile, type FileChange } from './edit-file.ts';
import { type Assignment, assignmentFor, standingPaths } from './edit-names.ts';
import { removeFromText, type Step, setInText } from './edit-text.ts';
import { announceTrust, keepTrust, withdrawTrust } from './edit-trust.ts';
import { readValue } from './edit-value.ts';

/** Which setting is changed, and in which file. */
export interface SettingEdit {
  readonly scope: 'global' | 'workspace';
  /** Dotted, or a JSON pointer. */
  readonly key: string;
}

/** What is written: text as a person types it, read by the type of the key; or a value as it is. */
export type SettingValue = { readonly text: string } | { readonly value: unknown };

/** What became of a change. Its values may be secrets: hide them with `maskSecrets` before showing them. */
export interface SettingChange {
  readonly file: string;
  /** Whether the file was made by this change. */
  readonly created: boolean;
  /** Whether the file says anything else than before. */
  readonly changed: boolean;
  /** Where it stands in the file, which may know it by another name than was asked for. */
  readonly pointer: string;
  /** What stood there before; undefined where nothing did. */
  readonly previous: unknown;
  /** What stands there now; undefined where nothing does. */
  readonly value: unknown;
  /** Whether all that the file says counts: the global file always, another as long as it was trusted before. */
  readonly trusted: boolean;
  /** What the file says that does not count until it is trusted, as JSON pointers. */
  readonly ignored: readonly string[];
  /** What else there is to say of the change. */
  readonly warnings: readonly Diagnostic[];
}

/** Sets one setting. Throws SettingsError, and writes nothing, where the file would not be right afterwards. */
export async function setSetting(
  places: SettingsPlaces,
  { scope, key, ...given }: SettingEdit & SettingValue,
): Promise<SettingChange> {
  const keys = pointerKeys(keyToPointer(key));
  const wanted = 'text' in given ? readValue(given.text, keys) : given.value;
  return change(places, scope, ({ content, text }, file) => {
    const { path, value } = assignmentFor(content, keys, wanted);
    assertWay(content, path, file);
    const same = JSON.stringify(valueAt(content, path.map(String))) === JSON.stringify(value);
    return { path, value, text: same ? text : setInText(text, path, value) };
  });
}

/** Removes one setting, and the objects that would be left empty. Throws SettingsError where the file does not have it. */
export async function unsetSetting(
  places: SettingsPlaces,
  { scope, key }: SettingEdit,
): Promise<SettingChange> {
  const keys = pointerKeys(keyToPointer(key));
  return change(places, scope, ({ content, text }, file) => {
    const paths = standingPaths(content, keys);
    const [path] = paths;
    if (!path) throw notThere(key, keys, content, file);
    return { path, value: undefined, text: paths.reduce(removeFromText, text) };
  });
}

/** A file as it was read. */
interface FileText {
  readonly content: unknown;
  /** Without a byte order mark. */
  readonly text: string;
}

/** The file as it shall be; a value that is undefined was removed. */
interface EditedText extends Assignment {
  readonly text: string;
}

async function change(
  places: SettingsPlaces,
  scope: SettingEdit['scope'],
  edit: (before: FileText, file: string) => EditedText,
): Promise<SettingChange> {
  return changeFile(places, scope, async (before) => {
    const { bytes, edited, content } = editBytes(before, edit);
    const { parsed, warnings } = await assertNoWorse(before.bytes, bytes, edited, {
      file: before.file,
      scope,
    });
    const changed = before.bytes === null || !Buffer.from(bytes).equals(before.bytes);
    if (changed) await writeBeside(before, scope, content);
    const pointer = pointerTo(edited.path.map(String));
    const previous = valueAt(content, pointerKeys(pointer));
    const { file } = before;
    const facts = { file, created: before.bytes === null, changed, pointer, previous, value: edited.value };
    const { standing, ...trusting } = await trustingOf(places, scope, before, bytes, parsed);
    const finish = async () => {
      const now = await standing();
      return { ...facts, ...now, warnings: [...warnings, ...now.warnings] };
    };
    return { bytes: changed ? bytes : null, ...trusting, finish };
  });
}

const byteOrderMark = '\uFEFF';

function editBytes(
  { bytes, file }: EditableFile,
  edit: (before: FileText, file: string) => EditedText,
): { readonly bytes: Uint8Array; readonly edited: EditedText; readonly content: unknown } {
  const original = bytes ?? new TextEncoder().encode(newFileText);
  const { document, diagnostics } = readDocument(original, file);
  // What cannot be read cannot be changed without guessing what was meant.
  if (!document) throw new SettingsError(diagnostics);
  const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(original);
  const mark = whole.startsWith(byteOrderMark) ? byteOrderMark : '';
  const edited = edit({ content: document.value, text: whole.slice(mark.length) }, file);
  return { bytes: new TextEncoder().encode(mark + edited.text), edited, content: document.value };
}

/**
 * Makes the folder of the file, with what belongs beside it: the schema of this version as well, which a clone does not
 * have, and which an older version may have left.
 */
export async function writeBeside(
  { realPath, bytes }: EditableFile,
  scope: SettingEdit['scope'],
  content: unknown,
): Promise<void> {
  const folder = dirname(realPath);
  if (scope === 'workspace') await writeProjectIgnore(folder);
  if (bytes === null) {
    await makeFolder(folder);
    await writeSchema(folder);
  } else if (valueAt(content, ['$schema']) === schemaBeside)
    // It helps editors alone: where it cannot be written, which the doctor tells, the settings still can.
    await writeSchema(folder, await stat(realPath)).catch(() => undefined);
}

interface Trusting extends Pick<FileChange<unknown>, 'announce' | 'withdraw'> {
  /** What of the file counts, once it is written. */
  standing(): Promise<Pick<SettingChange, 'trusted' | 'ignored' | 'warnings'>>;
}

/** How the file stays trusted, if it is. */
async function trustingOf(
  places: SettingsPlaces,
  scope: SettingEdit['scope'],
  { file, realPath, sha256 }: EditableFile,
  bytes: Uint8Array,
  parsed: ParsedSettings,
): Promise<Trusting> {
  if (scope === 'global') return { standing: async () => ({ trusted: true, ignored: [], warnings: [] }) };
  const { review, ignored } = await reviewOf(places, file, parsed);
  const after = createHash('sha256').update(bytes).digest('hex');
  const change = { realPath, before: sha256, after, review };
  return {
    announce: () => announceTrust(places, change),
    withdraw: () => withdrawTrust(places, change),
    async standing() {
      const kept = await keepTrust(places, change);
      return { ...kept, ignored: kept.trusted ? [] : ignored };
    },
  };
}

/** What there would be to trust in a file with this content. */
export async function reviewOf(
  places: SettingsPlaces,
  file: string,
  { written, document }: ParsedSettings,
): Promise<{ readonly review: Review | null; readonly ignored: readonly string[] }> {
  if (!written || !document) return { review: null, ignored: [] };
  const { config, pointerInFile } = normalize(written, document);
  const review = await reviewLayer({ file, written: config, place: () => null }, places, null);
  return { review, ignored: review.sections.map(({ pointer }) => pointerInFile(pointer)) };
}

/** Throws where something else stands on the way to the place, so that there can be no such place. */
function assertWay(content: unknown, path: readonly Step[], file: string): void {
  for (const [index, step] of path.entries()) {
    const before = path.slice(0, index).map(String);
    const parent = valueAt(content, before);
    if (parent === undefined) return;
    if (Array.isArray(parent) && typeof step === 'number') {
      if (step <= parent.length) continue;
      const next = `The next one is number ${parent.length}.`;
      throw refusal(file, pointerTo(before), `This list has ${parent.length} items`, next);
    }
    if (isObject(parent)) continue;
    throw refusal(
      file,
      pointerTo(before),
      'This is not an object, so that nothing can be set in it',
      'Mend it first.',
    );
  }
}

function notThere(key: string, keys: readonly string[], content: unknown, file: string): SettingsError {
  const before = keys.slice(
    0,
    keys.findIndex((_, index) => valueAt(content, keys.slice(0, index + 1)) === undefined),
  );
  const parent = valueAt(content, before);
  const meant = isObject(parent) ? nearest(keys[before.length] ?? '', Object.keys(parent)) : null;
  const remedy = meant
    ? `Did you mean "${pointerToKey(pointerTo([...before, meant]))}"?`
    : `\`service config explain ${key}\` says which file does.`;
  return refusal(file, pointerTo(keys), 'This file does not say so', remedy);
}

function refusal(file: string, pointer: string, message: string, remedy: string): SettingsError {
  const place = { file, line: 1, column: 1 };
  return new SettingsError([{ severity: 'error', place, pointer, message, expected: null, remedy }]);
}
