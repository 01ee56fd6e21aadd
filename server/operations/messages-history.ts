/** Recognises what a session holds already of the history that a client sends. */
import type { Message, MessagePart, Session } from '../contract/api.ts';
import { givenAnew } from '../given-anew.ts';

/** What one side said before the other spoke again. */
export interface Turn {
  readonly role: 'user' | 'assistant';
  /** Without the blanks around it, which clients change. */
  readonly text: string;
  /** False where no model is shown it any more; true if absent. */
  readonly isShown?: boolean;
}

/**
 * What a client may hold for the session's history: all of it, or all but the questions that no answer came of. A client
 * that is told of a failure asks again and forgets the first time. While a run is at work, its answer may still come.
 */
export function histories(
  stored: readonly Message[],
  { status }: Pick<Session, 'status'>,
  calls: ReadonlySet<string>,
): readonly (readonly Turn[])[] {
  const anew = givenAnew(stored);
  // In a fork, what was given anew is known by that it is no longer shown.
  const said = stored.filter(
    (message) =>
      !message.summary && !anew.has(message) && !(message.excluded && message.role === 'assistant'),
  );
  const all = storedTurns(said, calls);
  return status === 'idle' ? [all, storedTurns(answered(said), calls)] : [all];
}

/** The turns of a request; `calls` are those of the client's tools, by their ids. */
export function sentTurns(messages: readonly Said[], calls: ReadonlySet<string>): readonly Turn[] {
  return messages.map(({ role, parts }) => ({ role: speaker(role), text: textOf(parts, calls).trim() }));
}

/** The ids of all calls that a client knows of: those of our own tools are none of its business. */
export function callsIn(messages: readonly Said[]): ReadonlySet<string> {
  return new Set(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) =>
        part.type === 'tool_use' ? [part.id] : part.type === 'tool_result' ? [part.tool_use_id] : [],
      ),
    ),
  );
}

/** The calls that the newest answer of a session has left to its client, by their ids. */
export function openCalls(
  all: readonly Message[],
  { status }: Pick<Session, 'status'>,
): ReadonlyMap<string, string> {
  // Results that led to no answer will be sent again.
  const stored = (status === 'idle' ? answered(all) : all).filter(({ excluded }) => !excluded);
  const at = stored.findLastIndex(({ role }) => role === 'assistant');
  const open = new Map<string, string>();
  for (const part of stored[at]?.parts ?? []) if (part.type === 'tool_use') open.set(part.id, part.name);
  for (const part of stored.slice(at + 1).flatMap(({ parts }) => parts))
    if (part.type === 'tool_result') open.delete(part.tool_use_id);
  return open;
}

type Said = Pick<Message, 'role' | 'parts'>;

/** Without the runs that gave no answer. */
function answered(messages: readonly Message[]): Message[] {
  const ends = new Map<string | null, Message['stop_reason']>();
  for (const { role, run_id, stop_reason } of messages)
    if (role === 'assistant') ends.set(run_id, stop_reason);
  return messages.filter(({ run_id, excluded }) => {
    const end = ends.get(run_id);
    // Without a run are those that a client brought along, and those of forks and imports.
    if (run_id === null) return !excluded;
    return end !== undefined && end !== 'error' && end !== 'interrupted';
  });
}

/**
 * The turns of the request that the session does not hold yet; null where the histories differ.
 * A client may send the whole history, or only its newest message and leave the rest to the session.
 */
export function newTurns(
  histories: readonly (readonly Turn[])[],
  sent: readonly Turn[],
): readonly Turn[] | null {
  // The newest turn is new, even where somebody says the same again.
  const repeated = sent.slice(0, -1);
  for (const stored of histories) {
    const known = overlap(stored, repeated);
    const fresh = sent.slice(known);
    // An answer is nothing without its question, which the model would not be shown.
    const isTorn = stored.at(-1)?.isShown === false && fresh[0]?.role === 'assistant';
    if (known > 0 && !isTorn) return fresh;
  }
  // What a client remembers of the assistant must be what was said; its own words may be new.
  const untold = histories.every((stored) => stored.every(({ isShown }) => isShown === false));
  return untold || sent.every(({ role }) => role === 'user') ? sent : null;
}

/**
 * How many turns at the end of the one are the begin of the other, at most. By the algorithm of Knuth, Morris and Pratt:
 * to try each length would take minutes for histories that a client is free to send.
 */
function overlap(stored: readonly Turn[], sent: readonly Turn[]): number {
  const shorter = borders(sent);
  let known = 0;
  for (const turn of stored) known = extended(known, turn, sent, shorter);
  return known;
}

/** For each begin of the turns: how many turns at its end are a shorter begin again. */
function borders(turns: readonly Turn[]): number[] {
  const shorter: number[] = [0];
  for (const turn of turns.slice(1)) shorter.push(extended(shorter.at(-1) ?? 0, turn, turns, shorter));
  return shorter;
}

function extended(known: number, turn: Turn, turns: readonly Turn[], shorter: readonly number[]): number {
  let matched = known;
  while (matched > 0 && !sameTurn(turn, turns[matched])) matched = shorter[matched - 1] ?? 0;
  return sameTurn(turn, turns[matched]) ? matched + 1 : 0;
}

function sameTurn(stored: Turn, sent: Turn | undefined): boolean {
  return stored.role === sent?.role && stored.text === sent.text;
}

/** Steps and results of our own tools between two prompts are one answer to the client. */
function storedTurns(messages: readonly Message[], calls: ReadonlySet<string>): Turn[] {
  const turns: Turn[] = [];
  for (const { role, parts, excluded } of messages) {
    const text = textOf(parts, calls);
    if (role === 'tool' && text === '') continue;
    const last = turns.at(-1);
    if (role === 'assistant' && last?.role === 'assistant')
      turns[turns.length - 1] = { ...last, text: last.text + text };
    else turns.push({ role: speaker(role), text, isShown: !excluded });
  }
  return turns.map((turn) => ({ ...turn, text: turn.text.trim() }));
}

/** Calls count by their ids: what a client sends of their arguments and results may be written in another way. */
function textOf(parts: readonly MessagePart[], calls: ReadonlySet<string>): string {
  return parts
    .map((part) => {
      if (part.type === 'text') return part.text;
      if (part.type === 'tool_use' && calls.has(part.id)) return `\u0000call ${part.id}`;
      if (part.type === 'tool_result' && calls.has(part.tool_use_id))
        return `\u0000result ${part.tool_use_id}`;
      return part.type === 'file' ? `\u0000file ${part.sha256 ?? part.url ?? part.name}` : '';
    })
    .join('');
}

function speaker(role: Message['role']): Turn['role'] {
  return role === 'assistant' ? 'assistant' : 'user';
}
