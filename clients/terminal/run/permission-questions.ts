/** Shows what a tool call would do, and lets the person at the terminal decide. */
import type { PermissionReply, PermissionRequest } from '@service/client/api';
import { brief, paint, printable, type Style, shown } from '../output.ts';
import type { Keyboard } from '../terminal-input.ts';

type Decision = PermissionReply['decision'];

const keys: Readonly<
  Record<Decision, { readonly key: string; readonly offer: string; readonly said: string }>
> = {
  allow_once: { key: 'a', offer: 'allow once', said: 'allowed once' },
  allow_session: { key: 's', offer: 'for this session', said: 'allowed for this session' },
  allow_workspace: { key: 'w', offer: 'in this workspace', said: 'allowed in this workspace' },
  deny: { key: 'd', offer: 'deny', said: 'denied' },
};
const wholeKey = 'v';
const editKey = 'e';
/** What is longer is cut, with a key for the whole: the question itself must stay on the screen. */
const shownLines = 40;
const verbs: Readonly<Record<PermissionRequest['action'], string>> = {
  read: 'read',
  list: 'look into folders',
  write: 'change files',
  execute: 'run a command',
  fetch: 'fetch from the network',
  download: 'download a file',
};

/**
 * Asks until one of the keys is pressed.
 * @param asker - Which agent of the agent asks; null where it is that one itself.
 */
export async function askPermission(
  request: PermissionRequest,
  asker: string | null,
  keyboard: Keyboard,
  signal: AbortSignal,
): Promise<PermissionReply> {
  const lines = detailOf(request);
  const command = editable(request);
  let limit = shownLines;
  for (;;) {
    const cut = lines.length > limit;
    const more = [...(command === null ? [] : [editKey]), ...(cut ? [wholeKey] : [])];
    const ask = () => say(`${question(request, asker, lines.slice(0, limit), cut)}\n${offer(request, more)}`);
    const known = [...request.options.map((option) => keys[option].key), ...more];
    const wrong = () => say(tone('dim', `  Press ${known.join(', ')}.`));
    const key = await keyboard.readKey(known, ask, signal, wrong);
    const decision = request.options.find((option) => keys[option].key === key);
    if (decision) {
      say(tone(decision === 'deny' ? 'red' : 'green', `  → ${keys[decision].said}`));
      return { decision };
    }
    if (key === wholeKey) limit = Number.POSITIVE_INFINITY;
    const changed = key === editKey && command !== null ? await edited(command, keyboard, signal) : null;
    if (changed !== null) {
      say(tone('green', '  → allowed once as you changed it'));
      return { decision: 'allow_once', updated_input: { command: changed } };
    }
  }
}

/** A command of one line that can be shown as it is: what is longer is better refused, with a word to the agent. */
function editable({ options, params: { command } }: PermissionRequest): string | null {
  if (!options.includes('allow_once') || typeof command !== 'string') return null;
  const plain = command.length <= 1000 && !command.includes('\n') && shown(command) === command;
  return plain ? command : null;
}

/** Null where nothing was changed: then the question stands as before. */
async function edited(command: string, keyboard: Keyboard, signal: AbortSignal): Promise<string | null> {
  const line = (await keyboard.readLine('  $ ', signal, { begun: command }))?.trim();
  return line && line !== command.trim() ? line : null;
}

function question(
  request: PermissionRequest,
  asker: string | null,
  lines: readonly string[],
  cut: boolean,
): string {
  const { tool_name: tool, action, path } = request;
  const where = path === '.' ? 'this folder' : printable(path);
  const whose = asker === null ? '' : `, for ${brief(asker, 60)}`;
  const head = tone('yellow', `? ${printable(tool)} asks to ${verbs[action]} in ${where}${whose}`);
  const rest = cut ? [tone('dim', '  …')] : [];
  return [head, ...described(request), ...lines, ...rest, ...remembered(request)].join('\n');
}

/** What a lasting answer would allow from then on, in the words of the settings. */
function remembered({ tool_name: tool, grants }: PermissionRequest): readonly string[] {
  const named = grants.map((pattern) => (pattern === '*' ? tool : `${tool}(${pattern})`));
  return named.length === 0
    ? []
    : [tone('dim', `  s and w remember: ${named.map((one) => printable(one)).join(', ')}`)];
}

/** Not where it says only what stands below it. */
function described({ description, params: { command } }: PermissionRequest): readonly string[] {
  const repeats = typeof command === 'string' && description === `Run: ${command.slice(0, 200)}`;
  return repeats ? [] : [`  ${printable(description)}`];
}

const moreOffers: Readonly<Record<string, string>> = {
  [editKey]: 'edit and allow once',
  [wholeKey]: 'view the whole',
};

function offer({ options }: PermissionRequest, more: readonly string[]): string {
  const others = more.map((key) => ({ key, offer: moreOffers[key] ?? '' }));
  const offers = [...options.map((option) => keys[option]), ...others];
  return offers.map(({ key, offer: text }) => `  ${tone('bold', key)} ${text}`).join(' ');
}

/** The change as a diff; else the command, or every argument, in full: a summary could hide what matters. */
function detailOf({ diff, params }: PermissionRequest): readonly string[] {
  if (diff !== null) return shown(diff).trimEnd().split('\n').map(diffLine);
  const { command, description: _description, ...others } = params;
  const commandLines =
    typeof command === 'string'
      ? shown(command)
          .split('\n')
          .map((line) => `  $ ${line}`)
      : [];
  return [
    ...commandLines,
    ...Object.entries(others).map(([name, value]) => `  ${printable(name)}: ${argument(value)}`),
  ];
}

function argument(value: unknown): string {
  return shown(typeof value === 'string' ? value : JSON.stringify(value)).replaceAll('\n', '\n    ');
}

function diffLine(line: string): string {
  if (/^(---|\+\+\+) /.test(line)) return tone('bold', `  ${line}`);
  if (line.startsWith('@@')) return tone('cyan', `  ${line}`);
  if (line.startsWith('+')) return tone('green', `  ${line}`);
  return line.startsWith('-') ? tone('red', `  ${line}`) : `  ${line}`;
}

function tone(style: Style, text: string): string {
  return paint(style, text, process.stderr);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
