/** Holds a settings file after a change against the same before: what was wrong may stay so, but nothing may become so. */
import { type Diagnostic, SettingsError } from '../diagnostic.ts';
import { readDocument } from '../document.ts';
import { maskSecrets } from '../mask-secrets.ts';
import { isError, type ParsedSettings, parseSettings } from '../parse.ts';
import { isAtOrBelow, isObject, pointerKeys, pointerTo, valueAt } from '../pointer.ts';
import { schemaAt } from '../schema-marks.ts';
import { pointerToKey } from '../setting-keys.ts';
import type { Assignment } from './edit-names.ts';

/**
 * What the file is after the change, and the warnings that are new. Throws SettingsError with every error that was not
 * there before; a key that is not known counts as one, since whoever sets it now can mend it now.
 */
export async function assertNoWorse(
  before: Uint8Array | null,
  after: Uint8Array,
  edit: Assignment,
  { file, scope }: { readonly file: string; readonly scope: 'global' | 'workspace' },
): Promise<{ readonly parsed: ParsedSettings; readonly warnings: readonly Diagnostic[] }> {
  const old = before ? (await parseSettings(before, file)).diagnostics : [];
  const parsed = await parseSettings(after, file);
  const added = newOnes(old, parsed.diagnostics);
  const errors = added.filter((one) => isError(one) || schemaAt(pointerKeys(one.pointer)) === null);
  if (errors.length > 0) throw new SettingsError(errors.map((one) => asRefusal(one, edit, after, scope)));
  return { parsed, warnings: added };
}

/** Removing an item moves those that follow it, with all that is wrong in them. */
function newOnes(before: readonly Diagnostic[], after: readonly Diagnostic[]): Diagnostic[] {
  const left = before.map(nameOf);
  return after.filter((one) => {
    const index = left.indexOf(nameOf(one));
    if (index >= 0) left.splice(index, 1);
    return index < 0;
  });
}

function nameOf({ pointer, message }: Diagnostic): string {
  return `${pointer.replaceAll(/\/\d+(?=\/|$)/g, '/#')} ${message}`;
}

/** No place: the text that has it was never written. */
function asRefusal(
  diagnostic: Diagnostic,
  { path, value }: Assignment,
  after: Uint8Array,
  scope: 'global' | 'workspace',
): Diagnostic {
  const { pointer, remedy } = diagnostic;
  const edited = pointerTo(path.map(String));
  const isAround = pointer !== edited && pointer !== '' && isAtOrBelow(edited, pointer);
  const key = `${scope === 'global' ? ' --global' : ''} ${pointerToKey(pointer)}`;
  const whole =
    value === undefined
      ? `Or remove the whole of it: service config unset${key}`
      : `Set the whole of it at once: service config set${key} ${wholeOf(pointerKeys(pointer), after)}`;
  if (!isAround) return { ...diagnostic, severity: 'error', place: null };
  return {
    ...diagnostic,
    severity: 'error',
    place: null,
    remedy: value === undefined ? `${remedy} ${whole}` : whole,
  };
}

/** An object as it would be with every key that it must have, as one word of a shell. */
function wholeOf(keys: readonly string[], after: Uint8Array): string {
  const { required = [], properties = {} } = schemaAt(keys) ?? {};
  const written = valueAt(readDocument(after, '').document?.value, keys);
  const examples = required.map((key) => [key, properties[key]?.examples?.[0] ?? '…']);
  const whole = { ...Object.fromEntries(examples), ...(isObject(written) && written) };
  return `'${JSON.stringify(maskSecrets(whole, keys)).replaceAll("'", String.raw`'\''`)}'`;
}
