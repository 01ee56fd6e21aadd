/** `service config show`: the settings as they count, and where each value comes from. */
import type { FlatSetting, LoadedSettings } from '../../../server/config/config.ts';
import {
  displayPath,
  isTerminal,
  jsonText,
  notice,
  paint,
  print,
  printable,
  printJson,
  widthOf,
} from '../output.ts';
import { currentSettings } from '../places.ts';
import { noticeSettings } from '../settings-notices.ts';

/** As they come from the command line. */
interface ShowOptions {
  readonly origin?: boolean;
  readonly defaults?: boolean;
  readonly json?: boolean;
}

/** Beyond this, comments of origin are not aligned any more: one long value would push them all out of sight. */
const widestAligned = 60;

/** Prints the settings; secrets are hidden, for the answer may be pasted anywhere. */
export async function showConfig({ origin, defaults = false, json = false }: ShowOptions): Promise<void> {
  const { flattenSettings, maskSecrets, pointerKeys } = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  if (origin) {
    printOrigins(flattenSettings(loaded, { defaults }), json);
  } else {
    const settings = defaults
      ? nested(flattenSettings(loaded, { defaults }), pointerKeys, loaded)
      : maskSecrets(loaded.config);
    print(json ? jsonText(settings, 2) : coloured(jsonText(settings, 2)));
  }
  noticeSettings(loaded);
  if (loaded.layers.length === 0 && isTerminal())
    notice('No settings file says anything here. service config path shows where one may be.');
}

function printOrigins(settings: readonly FlatSetting[], json: boolean): void {
  if (json) printJson(settings.map(describe));
  else if (isTerminal()) printComments(settings);
  else for (const setting of settings) print(plain(setting));
}

function describe({ pointer, key, value, origin }: FlatSetting) {
  const place = origin?.place;
  return {
    key,
    pointer,
    value,
    scope: origin?.scope ?? 'default',
    file: place?.file ?? null,
    line: place?.line ?? null,
    column: place?.column ?? null,
  };
}

function plain({ key, value, origin }: FlatSetting): string {
  const place = origin ? `${printable(origin.place.file)}:${origin.place.line}` : '';
  return [printable(key), jsonText(value), origin?.scope ?? 'default', place].join('\t');
}

/** `key = value   # file:line`, as a person would write a note to it. */
function printComments(settings: readonly FlatSetting[]): void {
  const lines = settings.map(({ key, value, origin }) => ({
    name: printable(key),
    value: jsonText(value),
    comment: origin ? `${displayPath(origin.place.file)}:${origin.place.line}` : 'default',
  }));
  const widthOfLine = (line: (typeof lines)[number]) => widthOf(`${line.name} = ${line.value}`);
  const widest = Math.min(widestAligned, Math.max(0, ...lines.map(widthOfLine)));
  for (const line of lines) {
    const gap = ' '.repeat(Math.max(0, widest - widthOfLine(line)) + 3);
    print(`${paint('cyan', line.name)} = ${coloured(line.value)}${gap}${paint('dim', `# ${line.comment}`)}`);
  }
}

/** Puts single values back into the objects and lists that they stand in. */
function nested(
  settings: readonly FlatSetting[],
  pointerKeys: (pointer: string) => string[],
  { config }: LoadedSettings,
): unknown {
  const root = emptyLike(config);
  for (const { pointer, value } of settings) {
    const keys = pointerKeys(pointer);
    let inside = root;
    let model: unknown = config;
    for (const key of keys.slice(0, -1)) {
      model = (model as Container | undefined)?.[key]; // only objects and lists hold what has a longer pointer
      inside[key] ??= emptyLike(model);
      inside = inside[key] as Container; // made just above, or with an earlier value
    }
    inside[keys.at(-1) ?? ''] = value;
  }
  return root;
}

type Container = Record<string, unknown>;

/** Without a prototype: people name servers as they like. */
function emptyLike(model: unknown): Container {
  const made: unknown = Array.isArray(model) ? [] : Object.create(null);
  return made as Container; // a list, too, is reached by the names of its places
}

/** JSON with the colours of an editor, where there are colours. */
function coloured(json: string): string {
  return json.replaceAll(
    /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g,
    (token, text, colon) => {
      if (colon) return `${paint('cyan', text)}${colon}`;
      return paint(text ? 'green' : 'yellow', token);
    },
  );
}
