/** Holds a settings file after a change against the same before: what was wrong may stay so, but nothing may become so. */
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import type { Assignment } from './edit-names.ts';
import { isError, type ParsedSettings, parseSettings } from './parse.ts';
import { isAtOrBelow, pointerKeys, pointerTo } from './pointer.ts';
import { schemaAt } from './schema-marks.ts';
import { pointerToKey } from './setting-keys.ts';

/**
 * What the file is after the change, and the warnings that are new. Throws SettingsError with every error that was not
 * there before; a key that is not known counts as one, since whoever sets it now can mend it now.
 */
export async function assertNoWorse(
  before: Uint8Array | null,
  after: Uint8Array,
  edit: Assignment,
  file: string,
): Promise<{ readonly parsed: ParsedSettings; readonly warnings: readonly Diagnostic[] }> {
  const old = before ? (await parseSettings(before, file)).diagnostics : [];
  const parsed = await parseSettings(after, file);
  const added = newOnes(old, parsed.diagnostics);
  const errors = added.filter((one) => isError(one) || schemaAt(pointerKeys(one.pointer)) === null);
  if (errors.length > 0) throw new SettingsError(errors.map((one) => asRefusal(one, edit)));
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
function asRefusal(diagnostic: Diagnostic, { path, value }: Assignment): Diagnostic {
  const { pointer, remedy } = diagnostic;
  const edited = pointerTo(path.map(String));
  const isAround = pointer !== edited && pointer !== '' && isAtOrBelow(edited, pointer);
  const key = pointerToKey(pointer);
  const whole =
    value === undefined
      ? `Or remove the whole of it: service config unset ${key}`
      : `Or set the whole of it at once: service config set ${key} '{ … }'`;
  return { ...diagnostic, severity: 'error', place: null, remedy: isAround ? `${remedy} ${whole}` : remedy };
}
