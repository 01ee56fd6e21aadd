/** Shows a run to a person: the answer on standard output as it comes, all else briefly on standard error. */
import type { Plan, ResponseChunk, RuntimeEvent } from '@service/client/api';
import type { RunEvent } from '@service/client/stream';
import { brief, columnsOf, isTerminal, notice, paint, printable, type Style, shown } from '../output.ts';
import type { Progress } from './progress.ts';

/** Takes the events of one run, in order. */
export interface RunDisplay {
  show(event: RunEvent): void;
  /** Says something beside the answer, as it is and at any moment; behind a question that is on the terminal. */
  aside(text: string): void;
  /** Keeps what comes until `goOn`: a question is on the terminal. */
  hold(): void;
  goOn(): void;
  /** Nothing comes any more: ends the last line, and takes the progress away. */
  end(): void;
}

/** As much of what the model thinks as is kept to show some of it. */
const thoughtLimit = 2000;

/** Tools whose events of their own say more than the call does. */
const shownOtherwise = new Set(['ask_user', 'todos', 'plan', 'plan_step']);

/** Shows nothing. */
export const silentDisplay: RunDisplay = {
  show: () => undefined,
  aside: () => undefined,
  hold: () => undefined,
  goOn: () => undefined,
  end: () => undefined,
};

/** @param progress - Moves while nothing is printed. */
export function createRunDisplay(progress: Progress): RunDisplay {
  const answer = createAnswerWriter();
  const calls = createCallNames();
  let thought = '';
  let held: (RunEvent | string)[] | null = null;

  const line = (text: string) => {
    progress.hide();
    answer.endLine();
    process.stderr.write(`${text}\n`);
  };
  const aside = (text: string) => {
    if (held) return void held.push(text);
    if (isTerminal()) return line(text);
    // It may come within a sentence, which is to be whole where only the answer goes.
    progress.hide();
    process.stderr.write(`${text}\n`);
  };
  const dim = (text: string, style: Style = 'dim') => line(paint(style, text, process.stderr));
  const endThought = () => {
    if (thought.trim()) dim(`✻ ${brief(thought, 3 * lineWidth())}`);
    thought = '';
  };
  const busy = (words: string) => {
    if (answer.atLineStart()) progress.show(words);
  };

  const showChunk = (chunk: ResponseChunk) => {
    if (chunk.type === 'reasoning_delta') {
      thought = (thought + chunk.text).slice(0, thoughtLimit);
      busy('Thinking');
    } else {
      endThought();
      if (chunk.type === 'tool_input_delta') return busy(`Preparing ${printable(chunk.tool_name)}`);
      progress.hide();
      answer.write(chunk.message_id, chunk.text);
    }
  };
  const showRuntime = (event: RuntimeEvent) => {
    endThought();
    switch (event.type) {
      case 'run_queued':
        return busy('Waiting for its turn');
      case 'run_started':
        return busy(`Waiting for ${printable(event.model)}`);
      case 'step_finished':
        answer.endLine();
        return busy('Working');
      case 'run_resumed':
        return dim(printable(`↻ ${resumption(event)}; it goes on behind step ${event.step}.`), 'yellow');
      case 'tool_started':
        calls.begin(event);
        if (!shownOtherwise.has(event.tool_name)) dim(`● ${callLine(event)}`);
        return busy(`Running ${printable(event.tool_name)}`);
      case 'tool_progress':
        return busy(brief(event.text.trimEnd().split('\n').at(-1) ?? '', lineWidth()));
      case 'tool_finished': {
        const call = calls.end(event);
        if (event.is_error || !shownOtherwise.has(event.tool_name))
          dim(resultLine(event, call), event.is_error ? 'red' : 'dim');
        return busy('Working');
      }
      case 'model_retried':
        dim(printable(`↻ ${event.reason} Attempt ${event.attempt} follows.`), 'yellow');
        return busy(`Waiting for ${printable(event.model)}`);
      case 'model_replaced':
        return dim(printable(`↻ ${event.reason} ${event.to} goes on.`), 'yellow');
      case 'session_summarized':
        return dim('≡ The conversation so far was summed up.');
      case 'permission_expired':
        return dim('  Nobody answered in time: the tool call was refused.', 'yellow');
      case 'prompt_expired':
        return dim('  Nobody answered in time: the agent goes on without.', 'yellow');
      case 'todos_updated':
        return dim(todosLine(event.todos));
      case 'agent_started':
        return dim(`  ${printable(event.agent_slug)}: ${brief(event.description, lineWidth())}`);
      case 'plan_updated':
        return line(planText(event.plan));
      case 'notice_given':
        progress.hide();
        answer.endLine();
        return notice(event.message);
    }
  };
  const show = (event: RunEvent) => {
    if (held) held.push(event);
    else if (event.event === 'message') showChunk(event.data);
    else if (event.event === 'runtime') showRuntime(event.data);
    else endThought();
  };
  return {
    show,
    aside,
    hold() {
      progress.hide();
      answer.endLine();
      held ??= [];
    },
    goOn() {
      const events = held ?? [];
      held = null;
      for (const one of events)
        if (typeof one === 'string') aside(one);
        else show(one);
      busy('Working');
    },
    end() {
      progress.hide();
      answer.endLine();
    },
  };
}

/** An emoji and the colour of its skin, each of two halves. */
const longestJoined = 4;

/** Writes the text of the answer: as it is into a pipe, harmless on a terminal; each message on lines of its own. */
function createAnswerWriter() {
  const terminal = isTerminal();
  let messageId: string | null = null;
  let lineStart = true;
  let half = '';
  let before = '';
  /** What a joiner joins may have come with the piece before. */
  const harmless = (text: string) => {
    const whole = shown(before + text).slice(shown(before).length);
    before = (before + text).slice(-longestJoined);
    return whole;
  };
  const endLine = () => {
    // Half a line break waits for the other half, and is something itself, but on a terminal.
    if (half === '\r' && !terminal) {
      process.stdout.write(half);
      half = '';
      lineStart = false;
    }
    if (!lineStart) process.stdout.write('\n');
    lineStart = true;
  };
  return {
    atLineStart: () => lineStart,
    endLine,
    write(id: string, piece: string) {
      if (id !== messageId) {
        endLine();
        half = '';
        before = '';
      }
      messageId = id;
      // A piece may end within a character or a line break, or before what it joins; no half means anything alone.
      const text = half + piece;
      half = (terminal ? /[\u200c\u200d]?[\ud800-\udbff\r]?$/ : /[\ud800-\udbff\r]?$/).exec(text)?.[0] ?? '';
      const whole = text.slice(0, text.length - half.length);
      if (whole === '') return;
      process.stdout.write(terminal ? harmless(whole) : whole);
      lineStart = whole.endsWith('\n');
    },
  };
}

/** @param taken - As much of the line as is filled with something else: some words are said beside it at any width. */
function lineWidth(taken = 0): number {
  return Math.max(10, Math.max(20, columnsOf(process.stderr) - 6) - taken);
}

type Started = Extract<RuntimeEvent, { type: 'tool_started' }>;
type Finished = Extract<RuntimeEvent, { type: 'tool_finished' }>;
type Todos = Extract<RuntimeEvent, { type: 'todos_updated' }>['todos'];

/** The tool with the argument that says most: the first text, which tools name first. */
function callLine({ tool_name: name, input }: Started): string {
  const first = Object.values(input).find((value) => typeof value === 'string');
  return `${printable(name)} ${brief(typeof first === 'string' ? first : '', lineWidth(name.length))}`.trimEnd();
}

/** @param call - What was called, where it does not stand in the line above. */
function resultLine({ content, is_error: failed }: Finished, call: string | null): string {
  const lines = content.trim().split('\n');
  const more = lines.length > 1 ? ` (${lines.length} lines)` : '';
  // What went wrong stands at the end of what a command wrote.
  const line = (failed ? lines.at(-1) : lines[0]) ?? '';
  const named = call === null ? '' : `${brief(call, 30)}: `;
  return `  ${failed ? '✗' : '└'} ${named}${brief(line, lineWidth(more.length + named.length))}${more}`;
}

/** Of calls that go on at once the results come in any order, and have to name what they are of. */
function createCallNames() {
  const open = new Map<string, { readonly line: string; alone: boolean }>();
  return {
    begin(event: Started) {
      open.set(event.tool_call_id, { line: callLine(event), alone: open.size === 0 });
      if (open.size > 1) for (const call of open.values()) call.alone = false;
    },
    end({ tool_call_id: id }: Finished): string | null {
      const call = open.get(id);
      open.delete(id);
      return call === undefined || call.alone ? null : call.line;
    },
  };
}

/** In full where a person is to decide about it; else how far it is. */
function planText(plan: Plan): string {
  const { id, version, title, content, status } = plan;
  if (status === 'executing') return stepsLine(plan);
  if (status !== 'proposed')
    return printable(`▤ ${title} (${status === 'draft' ? 'a draft' : status}, version ${version})`);
  const head = paint('bold', `▤ ${printable(title)}`, process.stderr);
  const waits = printable(`  The plan ${id}, version ${version}, waits for its approval.`);
  const foot = paint('dim', waits, process.stderr);
  return [head, '', isTerminal(process.stderr) ? shown(content) : content, '', foot].join('\n');
}

function stepsLine({ steps }: Plan): string {
  const done = steps.filter(({ status }) => status === 'completed' || status === 'skipped').length;
  const now = steps.find(({ status }) => status === 'in_progress');
  const at = now ? `: ${brief(now.text, lineWidth(30))}` : '';
  return `▤ ${done} of ${steps.length} steps done${at}`;
}

function todosLine(todos: Todos): string {
  const done = todos.filter(({ status }) => status === 'completed').length;
  const now = todos.find(({ status }) => status === 'in_progress');
  return `☰ ${done} of ${todos.length} done${now ? `: ${brief(now.active_form, lineWidth(20))}` : ''}`;
}

function resumption({ reason }: Extract<RuntimeEvent, { type: 'run_resumed' }>): string {
  return reason === 'shutdown'
    ? 'The server was stopped, and has handed the run over'
    : 'The process that worked on the run has died';
}
