/** `service config explain`: what a setting means, what it is here, and which files say so. */
import type { Explanation, SettingMention } from '../../../server/config/config.ts';
import { describePlace } from '../origin-of.ts';
import {
  isTerminal,
  jsonText,
  paint,
  print,
  printable,
  printJson,
  printTable,
  type Style,
  write,
} from '../output.ts';
import { currentSettings } from '../places.ts';

/** What a table on a terminal shows of a value. `service config show` has all of it. */
const widestShown = 40;

/** What became of what a file says. */
const fates: Record<SettingMention['status'], { readonly text: string; readonly style: Style }> = {
  effective: { text: 'counts', style: 'green' },
  appended: { text: 'counts, together with what other files say', style: 'green' },
  merged: { text: 'counts, together with what other files say', style: 'green' },
  overridden: { text: 'does not count: a nearer file says otherwise', style: 'dim' },
  'not trusted': { text: 'does not count: the file is not trusted (service trust)', style: 'yellow' },
  confined: {
    text: 'does not count: it leads out of the project, and the file is not trusted',
    style: 'yellow',
  },
};

/** Prints all that there is to say of one key. */
export async function explainConfig(key: string, { json }: { readonly json?: boolean }): Promise<void> {
  const { explainSetting } = await import('../../../server/config/config.ts');
  const explanation = explainSetting(await currentSettings(), key);
  if (json) printJson(describe(explanation));
  else printExplanation(explanation);
}

function describe({ origin, setBy, default: usual, ...known }: Explanation) {
  return {
    ...known,
    value: known.value ?? null,
    default: usual ?? null,
    origin: origin && { scope: origin.scope, ...origin.place },
    set_by: setBy.map(({ scope, place, value, status, writtenAs }) => ({
      scope,
      ...place,
      value,
      status,
      written_as: writtenAs,
    })),
  };
}

function printExplanation(explanation: Explanation): void {
  const { key, description, setBy, notes } = explanation;
  print(paint('bold', printable(key)));
  print(description);
  print('');
  for (const [name, text] of factsOf(explanation))
    print(isTerminal() ? `${paint('dim', name.padEnd(10))}  ${text}` : `${name}\t${text}`);
  if (setBy.length > 0) {
    print('');
    printTable(setBy, [
      { title: 'scope', value: ({ scope }) => scope },
      { title: 'file', value: ({ place }) => describePlace(place) },
      { title: 'says', value: describeMention },
      {
        title: 'effect',
        value: ({ status }) => fates[status].text,
        style: ({ status }) => fates[status].style,
      },
    ]);
  }
  for (const note of notes) write(`\n${paint('yellow', 'warning')}: ${printable(note)}`, process.stdout);
}

function factsOf(explanation: Explanation): readonly (readonly [string, string])[] {
  const { origin, type, enum: values, default: usual, deprecated, restricted } = explanation;
  return [
    ['value', describeValue(explanation)],
    ...(origin ? ([['from', `${origin.scope} file ${describePlace(origin.place)}`]] as const) : []),
    ['type', type.join(' or ') || 'any'],
    ...(values ? ([['one of', values.map((one) => jsonText(one)).join(', ')]] as const) : []),
    ['default', usual === undefined ? 'none' : jsonText(usual)],
    ...(restricted
      ? ([['trust', 'Of the files of a project it counts only when the file is trusted.']] as const)
      : []),
    ...(deprecated ? ([['deprecated', paint('yellow', deprecated)]] as const) : []),
  ];
}

function describeValue({ value, origin, setBy }: Explanation): string {
  if (value === undefined) return 'not set';
  const isDefault =
    origin === null && !setBy.some(({ status }) => status === 'merged' || status === 'appended');
  return `${paint('bold', jsonText(value))}${isDefault ? ', the default' : ''}`;
}

function describeMention({ value, writtenAs }: SettingMention): string {
  const text = jsonText(value);
  const shown = isTerminal() && text.length > widestShown ? `${text.slice(0, widestShown)}…` : text;
  return writtenAs === null ? shown : `${shown} (as ${writtenAs})`;
}
