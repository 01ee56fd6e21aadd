/** A session at this moment, as sections to read: what runs and waits in it, what fills its context, what its agent has. */
import type {
  ExtensionState,
  InspectedTool,
  PermissionRequest,
  PromptRequest,
  Session,
  SessionInspection,
  Todo,
} from '@service/client/api';
import { describeUse, grouped } from './amounts.ts';
import { knownIn } from './known-values.ts';
import { localTime } from './local-time.ts';
import { brief, columnsOf, paint, printable, type Style, widthOf } from './output.ts';

type Run = NonNullable<SessionInspection['run']>;

/** @param here - Whether the service is inside this process. */
export function describeInspection(
  { id, title }: Pick<Session, 'id' | 'title'>,
  state: SessionInspection,
  { here }: { readonly here: boolean },
): string {
  const facts = [
    id,
    state.status,
    printable(state.agent_slug),
    ...(state.model ? [printable(state.model)] : []),
  ];
  const sections: readonly Section[] = [
    ['Run', state.run ? describeRun(state.run) : []],
    [
      'Queue',
      state.queue.map(({ prompt, agent_slug: agent }) => `${brief(prompt, room())} (${printable(agent)})`),
    ],
    [
      'Questions',
      [
        ...state.permission_requests.map(describeRequest),
        ...state.prompt_requests.flatMap(describeQuestions),
      ],
    ],
    ...optional('To do', state.todos.map(describeTodo)),
    ['Context', describeContext(state.context)],
    ['Tools', describeTools(state.tools)],
    ['MCP', describeExtensions(state.extensions, 'mcp')],
    ['LSP', describeExtensions(state.extensions, 'lsp')],
    ...optional('Skills', describeExtensions(state.extensions, 'skills')),
    ...optional('Notes', describeExtensions(state.extensions, 'context')),
    ...optional('Jobs', state.jobs.map(describeJob)),
  ];
  return [
    paint('bold', printable(title)),
    paint('dim', printable(facts.join(' · '))),
    ...(state.unavailable === null
      ? []
      : [paint('red', `The next query would be refused: ${printable(state.unavailable)}`)]),
    '',
    ...sections.flatMap(describeSection),
    ...(here && state.status !== 'idle' ? ['', paint('dim', elsewhere)] : []),
  ].join('\n');
}

const elsewhere =
  'MCP, LSP and jobs are those of this process: the one that works on the run has connections of its own.';

type Section = readonly [title: string, lines: readonly string[]];

const margin = 11;

/** How wide a line behind the titles may be. */
function room(): number {
  return Math.max(40, columnsOf() - margin - 1);
}

function optional(title: string, lines: readonly string[]): readonly Section[] {
  return lines.length > 0 ? [[title, lines]] : [];
}

function describeSection([title, lines]: Section): readonly string[] {
  const shown = lines.length > 0 ? lines : [paint('dim', 'none')];
  return shown.map((line, at) => paint('cyan', (at === 0 ? title : '').padEnd(margin)) + line);
}

function describeRun(run: Run): readonly string[] {
  const { id, status, steps, resumptions, usage, cost, error, interrupt_reason: reason } = run;
  const why = error ? ` (${error.code}: ${error.message})` : reason ? ` (${reason})` : '';
  const again = resumptions > 0 ? `, resumed ${resumptions === 1 ? 'once' : `${resumptions} times`}` : '';
  const end = run.ended_at ? ` · ended ${localTime(run.ended_at)}` : '';
  return [
    `${paint(toneOf(status), printable(status))}${printable(why)}, ${steps} ${steps === 1 ? 'step' : 'steps'}${again}`,
    describeUse(usage, cost),
    paint('dim', printable(`${id} · begun ${localTime(run.started_at ?? run.created_at)}${end}`)),
  ];
}

function toneOf(status: Run['status']): Style {
  if (status === 'completed') return 'green';
  return status === 'failed' || status === 'interrupted' ? 'red' : 'yellow';
}

function describeRequest({ tool_name: tool, description, expires_at }: PermissionRequest): string {
  return `${printable(tool)} waits for permission until ${localTime(expires_at)}: ${brief(description, room())}`;
}

function describeQuestions({ questions, expires_at }: PromptRequest): readonly string[] {
  return questions.map(({ text }) => `The agent asks until ${localTime(expires_at)}: ${brief(text, room())}`);
}

const marks: Readonly<Record<Todo['status'], string>> = { pending: '·', in_progress: '▸', completed: '✓' };

function describeTodo({ content, status }: Todo): string {
  return `${knownIn(marks, status) ?? `${printable(status)}:`} ${brief(content, room())}`;
}

function describeContext({
  used,
  window,
  estimated,
  parts,
}: SessionInspection['context']): readonly string[] {
  const share = window === null ? '' : ` of ${grouped(window)} (${Math.round((100 * used) / window)} %)`;
  return [
    `${grouped(used)} tokens${share} at the last step; the next one reads about ${grouped(estimated)}:`,
    ...aligned(parts.map(({ part, tokens }) => [printable(part.replaceAll('_', ' ')), grouped(tokens)])),
  ];
}

/** The second cell to the right, as numbers stand. */
function aligned(rows: readonly (readonly [string, string])[]): readonly string[] {
  const [left, right] = [0, 1].map((at) => Math.max(0, ...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map(([name, number]) => `  ${name.padEnd(left ?? 0)}  ${number.padStart(right ?? 0)}`);
}

function describeTools(tools: readonly InspectedTool[]): readonly string[] {
  const on = tools.filter(({ disabled_by }) => disabled_by === null);
  const sources = [...new Set(on.map(({ source }) => source))];
  const asks = on.some(({ needs_permission }) => needs_permission)
    ? '; * asks unless a rule lets it pass'
    : '';
  return [
    `${on.length} of ${tools.length}${asks}`,
    ...sources.flatMap((source) =>
      filled(
        on
          .filter((tool) => tool.source === source)
          .map(({ name, needs_permission: asking }) => `${printable(name)}${asking ? '*' : ''}`),
        printable(source).padEnd(9),
      ),
    ),
    ...tools.flatMap(({ name, disabled_by }) =>
      disabled_by === null
        ? []
        : [paint('dim', `  off      ${printable(name)}: ${brief(disabled_by, room())}`)],
    ),
  ];
}

/** Words with commas between, broken into lines behind a title. */
function filled(words: readonly string[], title: string): readonly string[] {
  const lines: string[] = [];
  for (const [at, word] of words.entries()) {
    const piece = at === words.length - 1 ? word : `${word},`;
    const last = lines.at(-1);
    if (last !== undefined && widthOf(last) + widthOf(piece) + 1 + title.length + 2 <= room())
      lines[lines.length - 1] = `${last} ${piece}`;
    else lines.push(piece);
  }
  return lines.map((line, at) => `  ${at === 0 ? title : ' '.repeat(title.length)}${line}`);
}

const looks: Readonly<Record<ExtensionState['state'], Style>> = {
  disabled: 'dim',
  idle: 'dim',
  starting: 'yellow',
  ready: 'green',
  failed: 'red',
};

function describeExtensions(
  states: readonly ExtensionState[],
  kind: ExtensionState['extension'],
): readonly string[] {
  const own = states.filter(({ extension }) => extension === kind);
  const width = Math.max(0, ...own.map(({ name }) => widthOf(printable(name))));
  return own.map(({ name, state, detail }) => {
    const shown = printable(name);
    const why = detail === null ? '' : `: ${brief(detail, room())}`;
    const look = knownIn(looks, state);
    const now = look === null ? printable(state) : paint(look, state);
    return `${shown}${' '.repeat(width - widthOf(shown))}  ${now}${why}`;
  });
}

function describeJob({ id, command, status, exit_code: code }: SessionInspection['jobs'][number]): string {
  const end = status === 'running' ? 'running' : code === null ? 'ended by a signal' : `ended with ${code}`;
  return `${printable(id)} ${end}: ${brief(command, room() - 30)}`;
}
