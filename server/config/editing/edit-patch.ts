/** Merges a JSON merge patch (RFC 7396) into the workspace file: comments stay, and values are literals. */
import { createHash } from 'node:crypto';
import { SettingsError } from '../diagnostic.ts';
import { readDocument } from '../document.ts';
import { newFileText } from '../files/schema-copy.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';
import { parseSettings } from '../parse.ts';
import { isObject, type JsonObject, objectOf, pointerTo, valueAt } from '../pointer.ts';
import { RestrictedSettings } from '../restricted-settings.ts';
import {
  markedValues,
  needsTrust,
  needsTrustAt,
  type SettingsSchema,
  schemaAt,
  schemaBelow,
} from '../schema-marks.ts';
import type { Review } from '../trust/trust-review.ts';
import { assertNoWorse } from './edit-check.ts';
import { changeFile, type EditableFile } from './edit-file.ts';
import { assignmentFor, standingPaths } from './edit-names.ts';
import { reviewOf, writeBeside } from './edit-setting.ts';
import { removeFromText, type Step, setInText } from './edit-text.ts';
import { announceTrust, withdrawTrust } from './edit-trust.ts';

/** What is to be merged, and by whom. */
export interface SettingsPatch {
  readonly patch: JsonObject;
  /** Whether what needs trust may be changed, in a trusted file too. */
  readonly mayRestrict: boolean;
  /** Whether these bytes of the file are trusted. */
  readonly isTrusted: (realPath: string, sha256: string) => boolean;
  /** Whether that is the person's own record, and the change keeps trust: recording the new bytes is then left to the caller. */
  readonly keepsOwnTrust?: boolean;
  /** Called with the hash of the file as it is, null where there is none; what it throws ends the change. */
  readonly check: (sha256: string | null) => void;
}

/** What became of the file. */
export interface PatchedFile {
  readonly realPath: string;
  readonly created: boolean;
  /** Hex SHA-256 of the bytes; null where there was no file. */
  readonly before: string | null;
  readonly after: string;
  /** What was set or removed, as JSON pointers. */
  readonly pointers: readonly string[];
  /** What there is to trust in it now. */
  readonly review: Review | null;
}

/** Throws SettingsError where the file would not be right afterwards, RestrictedSettings where it must not be done. */
export async function patchSettings(
  places: SettingsPlaces,
  { patch, mayRestrict, isTrusted, keepsOwnTrust = false, check }: SettingsPatch,
): Promise<PatchedFile> {
  return changeFile(places, 'workspace', async (before) => {
    check(before.sha256);
    const { content, text, mark } = textOf(before);
    const edits = fewEdits(patch, content, before.file);
    if (!mayRestrict) await refuseRestricted(places, before, edits, content, isTrusted);
    const bytes = new TextEncoder().encode(mark + allApplied(edits, text, before.file));
    const whole = { path: [], value: undefined };
    const { parsed } = await assertNoWorse(before.bytes, bytes, whole, {
      file: before.file,
      scope: 'workspace',
    });
    const changed = edits.length > 0 && !(before.bytes && Buffer.from(bytes).equals(before.bytes));
    if (changed) await writeBeside(before, 'workspace', content);
    const patched = {
      realPath: before.realPath,
      created: changed && before.bytes === null,
      before: before.sha256,
      after: createHash('sha256').update(bytes).digest('hex'),
      pointers: edits.map(({ path }) => pointerTo(path.map(String))),
      review: (await reviewOf(places, before.file, parsed)).review,
    };
    return {
      bytes: changed ? bytes : null,
      ...(keepsOwnTrust && {
        announce: () => announceTrust(places, patched),
        withdraw: () => withdrawTrust(places, patched),
      }),
      finish: async () => patched,
    };
  });
}

/** One value that is set, or removed where it is undefined. */
interface Edit {
  readonly path: readonly Step[];
  readonly value: unknown;
}

const byteOrderMark = '\uFEFF';

function textOf({ bytes, file }: EditableFile) {
  const original = bytes ?? new TextEncoder().encode(newFileText);
  const { document, diagnostics } = readDocument(original, file);
  // What cannot be read cannot be changed without guessing what was meant.
  if (!document) throw new SettingsError(diagnostics);
  const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(original);
  const mark = whole.startsWith(byteOrderMark) ? byteOrderMark : '';
  return { content: document.value, text: whole.slice(mark.length), mark };
}

/** Objects are merged as far as there is an object to merge with; all else replaces what stands there. */
function* editsOf(patch: JsonObject, content: unknown, before: readonly string[] = []): Generator<Edit> {
  for (const [key, value] of Object.entries(patch)) {
    const keys = [...before, key];
    if (value === null) {
      for (const path of standingPaths(content, keys)) yield { path, value: undefined };
      continue;
    }
    const { path } = assignmentFor(content, keys, undefined);
    const names = path.map(String);
    if (isObject(value) && isObject(valueAt(content, names))) yield* editsOf(value, content, names);
    else {
      const literal = asLiteral(withoutNulls(value), schemaAt(names) ?? {});
      yield assignmentFor(content, keys, literal);
    }
  }
}

function withoutNulls(value: unknown): unknown {
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([, child]) => child !== null);
  return objectOf(kept.map(([key, child]) => [key, withoutNulls(child)] as const));
}

/** A dollar sign that somebody sends stands for itself, where the file's own would begin a template. */
function asLiteral(value: unknown, schema: SettingsSchema): unknown {
  if (typeof value === 'string') return schema['x-expand'] ? value.replaceAll('$', String.raw`\$`) : value;
  const child = (key: string, item: unknown) => asLiteral(item, schemaBelow(schema, key) ?? {});
  if (Array.isArray(value)) return value.map((item, index) => child(String(index), item));
  if (!isObject(value)) return value;
  return objectOf(Object.entries(value).map(([key, item]) => [key, child(key, item)] as const));
}

/** Each edit reads the whole text anew, and nothing else is served meanwhile: how many there may be, */
const mostEdits = 500;
/** and how many letters they may read together. */
const mostLetters = 16 * 1024 * 1024;

/** All edits of the patch; throws as soon as there are too many. */
function fewEdits(patch: JsonObject, content: unknown, file: string): Edit[] {
  const edits: Edit[] = [];
  for (const edit of editsOf(patch, content)) {
    if (edits.length === mostEdits) throw tooMuch(`More than ${mostEdits} settings change at once`, file);
    edits.push(edit);
  }
  return edits;
}

function allApplied(edits: readonly Edit[], original: string, file: string): string {
  let letters = 0;
  return edits.reduce((text, edit) => {
    letters += text.length;
    if (letters > mostLetters)
      throw tooMuch('Too many settings change at once for a file of this size', file);
    return applied(text, edit);
  }, original);
}

function tooMuch(message: string, file: string): SettingsError {
  const remedy = 'Send fewer of them at a time, or remove a section and then send the whole of it.';
  const place = { file, line: 1, column: 1 };
  return new SettingsError([{ severity: 'error', place, pointer: '', message, expected: null, remedy }]);
}

function applied(text: string, { path, value }: Edit): string {
  return value === undefined ? removeFromText(text, path) : setInText(text, path, value);
}

/** A change anywhere in a trusted file would end its trust, and with it the guards that stand there. */
async function refuseRestricted(
  places: SettingsPlaces,
  { bytes, file, realPath, sha256 }: EditableFile,
  edits: readonly Edit[],
  content: unknown,
  isTrusted: SettingsPatch['isTrusted'],
): Promise<void> {
  const touched = edits.flatMap(({ path, value }) => {
    const keys = path.map(String);
    const isRestricted =
      needsTrustAt(keys) || holdsRestricted(value, keys) || holdsRestricted(valueAt(content, keys), keys);
    return isRestricted ? [pointerTo(keys)] : [];
  });
  if (touched.length > 0) throw new RestrictedSettings(touched);
  if (bytes === null || sha256 === null || !isTrusted(realPath, sha256)) return;
  const { review } = await reviewOf(places, file, await parseSettings(bytes, file));
  if (review && review.sections.length > 0)
    throw new RestrictedSettings(review.sections.map(({ pointer }) => pointer));
}

function holdsRestricted(value: unknown, keys: readonly string[]): boolean {
  const schema = schemaAt(keys);
  return schema !== null && [...markedValues(value, schema, keys)].some((one) => needsTrust(one.schema));
}
