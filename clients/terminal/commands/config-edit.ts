/** `service config set` and `unset`: change one setting, and say what came of it. */
import type { Origin, SettingChange } from '../../../server/config/config.ts';
import { displayPath, jsonText, notice, paint, print, printable } from '../output.ts';
import { currentPlaces } from '../places.ts';
import { noticeDiagnostics } from '../settings-notices.ts';

/** As they come from the command line. */
interface EditOptions {
  readonly global?: boolean;
}

/** Sets a setting, in the file of this project or in the global one. */
export async function setConfig(key: string, text: string, options: EditOptions): Promise<void> {
  const { setSetting } = await import('../../../server/config/config.ts');
  await report(key, await setSetting(await currentPlaces(), { key, text, scope: scopeOf(options) }));
}

/** Removes a setting from the file of this project, or from the global one. */
export async function unsetConfig(key: string, options: EditOptions): Promise<void> {
  const { unsetSetting } = await import('../../../server/config/config.ts');
  await report(key, await unsetSetting(await currentPlaces(), { key, scope: scopeOf(options) }));
}

function scopeOf({ global: isGlobal }: EditOptions): 'global' | 'workspace' {
  return isGlobal ? 'global' : 'workspace';
}

async function report(key: string, change: SettingChange): Promise<void> {
  await printChange(change);
  noticeDiagnostics(change.warnings);
  if (isIgnored(change))
    return notice(
      `${displayPath(change.file, process.stderr)} is not trusted: this does not count until you run: service trust`,
    );
  const without = ignoredWithin(change);
  if (without.length > 0) {
    const { pointerToKey } = await import('../../../server/config/config.ts');
    const names = without.map((section) => printable(pointerToKey(section))).join(' and ');
    notice(
      `${displayPath(change.file, process.stderr)} is not trusted: ${names} in it ${without.length === 1 ? 'does' : 'do'} not count until you run: service trust`,
    );
  }
  const { explainSetting, loadSettings, SettingsError } = await import('../../../server/config/config.ts');
  try {
    const { origin } = explainSetting(await loadSettings(await currentPlaces()), key);
    if (origin && origin.place.file !== change.file) noticeOther(change, origin);
  } catch (error) {
    // The change is made. That another file cannot be used is to be told, and keeps this one from counting.
    if (!(error instanceof SettingsError)) throw error;
    noticeDiagnostics(error.diagnostics);
  }
}

async function printChange({
  file,
  created,
  changed,
  pointer,
  previous,
  value,
}: SettingChange): Promise<void> {
  const { maskSecrets, pointerKeys, pointerToKey } = await import('../../../server/config/config.ts');
  const shown = (one: unknown) =>
    one === undefined ? 'not set' : jsonText(maskSecrets(one, pointerKeys(pointer)));
  const key = paint('bold', printable(pointerToKey(pointer)));
  const where = `in ${displayPath(file)}${created ? ', a new file' : ''}`;
  if (changed) print(`${key}: ${shown(previous)} → ${paint('green', shown(value))} ${where}`);
  else print(`${key}: ${shown(value)} already ${where}`);
}

/** Whether the change has no effect until the file is trusted. */
function isIgnored({ pointer, ignored }: SettingChange): boolean {
  return ignored.some((section) => pointer === section || pointer.startsWith(`${section}/`));
}

/** What of the change has no effect until then, where the rest of it has. */
function ignoredWithin({ pointer, ignored }: SettingChange): readonly string[] {
  return ignored.filter((section) => section.startsWith(`${pointer}/`));
}

/** Another file says what counts: a nearer one, or, where this one says nothing any more, a farther one. */
function noticeOther({ value }: SettingChange, { place }: Origin): void {
  const other = `${displayPath(place.file, process.stderr)}:${place.line}`;
  notice(
    value === undefined
      ? `Now it is what ${other} says.`
      : `${other} says otherwise, and counts: it is nearer.`,
  );
}
