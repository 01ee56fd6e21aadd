/** `service config set` and `unset`: change one setting, and say what came of it. */
import type { LoadedSettings, SettingChange } from '../../../server/config/config.ts';
import { displayPath, jsonText, notice, paint, print, printable } from '../output.ts';
import { currentPlaces } from '../places.ts';
import { noticeDiagnostics } from '../settings-notices.ts';

/** As they come from the command line. */
interface EditOptions {
  readonly global?: boolean;
}

/** Sets a setting, in the file of this project or in the global one. */
export async function setConfig(key: string, text: string, options: EditOptions): Promise<void> {
  const { keyToPointer, setSetting } = await import('../../../server/config/config.ts');
  const edit = { pointer: keyToPointer(key), scope: scopeOf(options), text } as const;
  await report(await setSetting(await currentPlaces(), edit), edit.pointer);
}

/** Removes a setting from the file of this project, or from the global one. */
export async function unsetConfig(key: string, options: EditOptions): Promise<void> {
  const { keyToPointer, unsetSetting } = await import('../../../server/config/config.ts');
  const edit = { pointer: keyToPointer(key), scope: scopeOf(options) } as const;
  await report(await unsetSetting(await currentPlaces(), edit), edit.pointer);
}

function scopeOf({ global: isGlobal }: EditOptions): 'global' | 'workspace' {
  return isGlobal ? 'global' : 'workspace';
}

async function report(change: SettingChange, pointer: string): Promise<void> {
  await printChange(change);
  const { loadSettings, SettingsError } = await import('../../../server/config/config.ts');
  try {
    noticeEffect(change, pointer, await loadSettings(await currentPlaces()));
  } catch (error) {
    // The change is made. That another file cannot be used is to be told, and keeps this one from counting.
    if (!(error instanceof SettingsError)) throw error;
    noticeDiagnostics(error.diagnostics);
  }
}

async function printChange({ file, created, pointer, previous, value }: SettingChange): Promise<void> {
  const { maskSecrets, pointerKeys, pointerToKey } = await import('../../../server/config/config.ts');
  const shown = (one: unknown) =>
    one === undefined ? 'nothing' : jsonText(maskSecrets(one, pointerKeys(pointer)));
  const key = paint('bold', printable(pointerToKey(pointer)));
  const where = `in ${displayPath(file)}${created ? ', a new file' : ''}`;
  const same = jsonText(previous ?? null) === jsonText(value ?? null);
  if (same && value === undefined) print(`${key}: nothing said so ${where}`);
  else if (same) print(`${key}: ${shown(value)} already ${where}`);
  else print(`${key}: ${shown(previous)} → ${paint('green', shown(value))} ${where}`);
}

/** Whether the change has any effect: for want of trust, or since a nearer file says otherwise, it may have none. */
function noticeEffect(
  { file, value, ignored }: SettingChange,
  pointer: string,
  loaded: LoadedSettings,
): void {
  noticeDiagnostics(loaded.diagnostics.filter(({ place }) => place?.file === file));
  const isIgnored = ignored.some((section) => pointer === section || pointer.startsWith(`${section}/`));
  if (isIgnored)
    notice(
      `${displayPath(file, process.stderr)} is not trusted: this does not count until you run: service trust`,
    );
  const origin = loaded.origin(pointer);
  if (isIgnored || !origin || origin.place.file === file) return;
  const other = `${displayPath(origin.place.file, process.stderr)}:${origin.place.line}`;
  notice(
    value === undefined
      ? `Now it is what ${other} says.`
      : `${other} says otherwise, and counts, since that file is nearer.`,
  );
}
