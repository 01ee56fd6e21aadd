/** Shows what a tool call would do, and lets the person at the terminal decide. */
import type { PermissionReply, PermissionRequest } from '@service/client/api';
import { knownIn } from '../known-values.ts';
import { brief, columnsOf, fitting, paint, printable, type Style, shown, widthOf } from '../output.ts';
import type { Keyboard } from '../terminal-input.ts';
import type { Answered } from './answers.ts';

type Decision = PermissionReply['decision'];

const keys: Readonly<
  Record<Decision, { readonly key: string; readonly offer: string; readonly said: string }>
> = {
  allow_once: { key: 'a', offer: 'allow once', said: 'allowed once' },
  allow_session: { key: 's', offer: 'for this session', said: 'allowed for this session' },
  allow_workspace: { key: 'w', offer: 'in this workspace', said: 'allowed in this workspace' },
  deny: { key: 'd', offer: 'deny', said: 'denied' },
};
/** As people are used to refuse. */
const refusals = ['n'];
const wholeKey = 'v';
const editKey = 'e';
/** Rows of the screen. What is longer is cut, with a key for the whole: the question itself must stay on the screen. */
const most = { head: 2, detail: 40, remembered: 2 };
/** As many rows fill the head, what is remembered and the keys, with the marks of what is cut. */
const otherRows = 8;
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
): Promise<Answered<PermissionReply>> {
  const parts = partsOf(request, asker);
  const answers = request.options.filter(isKnown);
  if (answers.length === 0) {
    say(cutToScreen(parts).lines.map(painted).join('\n'));
    throw unanswerable(request);
  }
  const command = keyboard.canEdit ? editable(request) : null;
  let whole = false;
  for (;;) {
    const question = whole ? { lines: parts.flatMap(({ lines }) => lines), cut: false } : cutToScreen(parts);
    const more = [...(command === null ? [] : [editKey]), ...(question.cut ? [wholeKey] : [])];
    const ask = () => say([...question.lines.map(painted), offer(answers, more)].join('\n'));
    const known = [...answers.map((option) => keys[option].key), ...more];
    const wrong = () => say(tone('dim', `  Press ${known.join(', ')}.`));
    const key = await keyboard.readKey([...known, ...refusals], ask, signal, { careful: true, wrong });
    const decision = decisionOf(key, answers);
    if (decision) {
      const said = tone(decision === 'deny' ? 'red' : 'green', `  → ${keys[decision].said}`);
      return { reply: { decision }, said };
    }
    if (key === wholeKey) whole = true;
    const changed = key === editKey && command !== null ? await edited(command, keyboard, signal) : null;
    if (changed !== null) {
      const reply = { decision: 'allow_once', updated_input: { command: changed } } as const;
      return { reply, said: tone('green', '  → allowed once as you changed it') };
    }
  }
}

/** Keys that stand beside no offer can refuse, and never grant anything. */
function decisionOf(key: string, answers: readonly Decision[]): Decision | undefined {
  return answers.find((option) => keys[option].key === (refusals.includes(key) ? keys.deny.key : key));
}

/** What a newer server takes besides is told, and no key gives it: nobody knows here what it would allow. */
function isKnown(option: string): boolean {
  return knownIn(keys, option) !== null;
}

function unanswerable({ options }: PermissionRequest): Error {
  const named = options.map((option) => exactly(option)).join(', ');
  return new Error(
    `The server takes no answer that this command knows (${named}): answer elsewhere, or with a newer version of the command.`,
  );
}

/** A command of one line that can be shown as it is: what is longer is better refused, with a word to the agent. */
function editable({ options, params: { command } }: PermissionRequest): string | null {
  if (!options.includes('allow_once') || typeof command !== 'string') return null;
  const plain = command.length <= 1000 && !command.includes('\n') && shown(command, exact) === command;
  return plain ? command : null;
}

/** Null where nothing was changed: then the question stands as before. */
async function edited(command: string, keyboard: Keyboard, signal: AbortSignal): Promise<string | null> {
  const line = (await keyboard.readLine('  $ ', signal, { begun: command }))?.trim();
  return line && line !== command.trim() ? line : null;
}

interface Line {
  readonly text: string;
  readonly style?: Style;
}

/** What belongs together, and how many rows of the screen it may fill. */
interface Part {
  readonly lines: readonly Line[];
  readonly rows: number;
}

function partsOf(request: PermissionRequest, asker: string | null): readonly Part[] {
  const { tool_name: tool, action, path } = request;
  const where = path === '.' ? 'this folder' : exactly(path);
  const whose = asker === null ? '' : `, for ${brief(asker, 60)}`;
  const head = `? ${exactly(tool)} asks to ${knownIn(verbs, action) ?? exactly(action)} in ${where}${whose}`;
  // Some terminals do not say how high they are.
  const room = process.stderr.rows ? Math.max(3, process.stderr.rows - otherRows) : most.detail;
  return [
    { lines: [{ text: head, style: 'yellow' }], rows: most.head },
    { lines: [...described(request), ...detailOf(request)], rows: Math.min(most.detail, room) },
    { lines: [...remembered(request), ...unknown(request)], rows: most.remembered },
  ];
}

function cutToScreen(parts: readonly Part[]): { readonly lines: readonly Line[]; readonly cut: boolean } {
  const columns = columnsOf(process.stderr, 80);
  const kept = parts.map(({ lines, rows }) => firstRows(lines, rows, columns));
  return { lines: kept.flat(), cut: kept.some((lines, index) => lines !== parts[index]?.lines) };
}

/** The lines themselves where all of them fit. */
function firstRows(lines: readonly Line[], rows: number, columns: number): readonly Line[] {
  let left = rows;
  for (const [index, line] of lines.entries()) {
    if (left <= 0) return [...lines.slice(0, index), { text: '  …', style: 'dim' }];
    if (fitting(line.text, left * columns) !== line.text) {
      const text = `${fitting(line.text, left * columns - 1)}…`;
      return [...lines.slice(0, index), { ...line, text }];
    }
    left -= Math.max(1, Math.ceil(widthOf(line.text) / columns));
  }
  return lines;
}

function painted({ text, style }: Line): string {
  return style ? tone(style, text) : text;
}

/** What a lasting answer would allow from then on, in the words of the settings. */
function remembered({ tool_name: tool, grants }: PermissionRequest): readonly Line[] {
  const named = grants.map((pattern) => (pattern === '*' ? tool : `${tool}(${pattern})`));
  if (named.length === 0) return [];
  return [{ text: `  s and w remember: ${named.map((one) => exactly(one)).join(', ')}`, style: 'dim' }];
}

function unknown({ options }: PermissionRequest): readonly Line[] {
  const others = options.filter((option) => !isKnown(option));
  if (others.length === 0) return [];
  const named = others.map((option) => exactly(option)).join(', ');
  return [{ text: `  The server would also take, and this version does not know: ${named}`, style: 'dim' }];
}

/** Not where it says only what stands below it. */
function described({ description, params: { command } }: PermissionRequest): readonly Line[] {
  const repeats = typeof command === 'string' && description === `Run: ${command.slice(0, 200)}`;
  return repeats ? [] : [{ text: `  ${exactly(description)}` }];
}

const moreOffers: Readonly<Record<string, string>> = {
  [editKey]: 'edit and allow once',
  [wholeKey]: 'view the whole',
};

function offer(answers: readonly Decision[], more: readonly string[]): string {
  const others = more.map((key) => ({ key, offer: moreOffers[key] ?? '' }));
  const offers = [...answers.map((option) => keys[option]), ...others];
  return offers.map(({ key, offer: text }) => `  ${tone('bold', key)} ${text}`).join(' ');
}

/** The change as a diff; else the command, or every argument, in full: a summary could hide what matters. */
function detailOf({ diff, params }: PermissionRequest): readonly Line[] {
  if (diff !== null) return shown(diff, exact).trimEnd().split('\n').map(diffLine);
  const { command, description: _description, ...others } = params;
  const commandLines =
    typeof command === 'string'
      ? shown(command, exact)
          .split('\n')
          .map((line) => ({ text: `  $ ${line}` }))
      : [];
  return [
    ...commandLines,
    ...Object.entries(others).flatMap(([name, value]) => argumentLines(`  ${exactly(name)}: `, value)),
  ];
}

function argumentLines(name: string, value: unknown): readonly Line[] {
  const lines = shown(typeof value === 'string' ? value : JSON.stringify(value), exact).split('\n');
  return lines.map((line, index) => ({ text: `${index === 0 ? name : '    '}${line}` }));
}

function diffLine(line: string): Line {
  const style = diffStyleOf(line);
  return { text: `  ${line}`, ...(style && { style }) };
}

function diffStyleOf(line: string): Style | null {
  if (/^(---|\+\+\+) /.test(line)) return 'bold';
  if (line.startsWith('@@')) return 'cyan';
  if (line.startsWith('+')) return 'green';
  return line.startsWith('-') ? 'red' : null;
}

/** What is not seen is not decided about. */
const exact = { exact: true };

function exactly(text: string): string {
  return printable(text, exact);
}

function tone(style: Style, text: string): string {
  return paint(style, text, process.stderr);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
