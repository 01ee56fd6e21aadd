/** One run at a time in a session, also where each is in a process of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { Session } from '@service/client/api';
import { openKeyboard } from '../terminal-input.ts';
import { silentDisplay } from './run-display.ts';
import { createRunQuestions, type RunQuestions } from './run-questions.ts';

/** What the person is told meanwhile. */
export interface Waiting {
  readonly stop: AbortSignal;
  /** How often is looked. */
  readonly lookMs: number;
  /** Called once, if there is anything to wait for. */
  readonly onWait: () => void;
  /** Called once, if what it waits for is an answer, and nobody is here to give it. */
  readonly onUnanswerable: () => void;
}

/**
 * Waits until no run is at work in the session. A server lets the runs that it was asked for go one after the other; of
 * those in other processes with the same database it knows, and does not wait for them. What such a run asks is put
 * before the person here too: the process that it began in may be gone, and this one have taken it over.
 */
export async function awaitTurn(client: ServiceClient, session: Session, waiting: Waiting): Promise<void> {
  if (session.status === 'idle') return;
  waiting.onWait();
  const keyboard = openKeyboard();
  const questions = keyboard && createRunQuestions(client, silentDisplay, keyboard);
  try {
    await lookUntilIdle(client, session, waiting, questions);
  } finally {
    await questions?.close();
    keyboard?.close();
  }
}

async function lookUntilIdle(
  client: ServiceClient,
  session: Session,
  { stop, lookMs, onUnanswerable }: Waiting,
  questions: RunQuestions | null,
): Promise<void> {
  const params = { path: { session_id: session.id } };
  const asked = new Set<string>();
  let said = false;
  for (let now = session; now.status !== 'idle'; ) {
    if (questions) await askWhatIsOpen(client, session.id, { questions, asked, stop });
    else if (now.status === 'waiting' && !said) {
      said = true;
      onUnanswerable();
    }
    await sleep(lookMs, undefined, { signal: stop });
    now = (await client.GET('/api/v1/sessions/{session_id}', { params, signal: stop })).data;
  }
}

/** Each question once; what was answered elsewhere meanwhile is taken back. */
async function askWhatIsOpen(
  client: ServiceClient,
  sessionId: string,
  {
    questions,
    asked,
    stop: signal,
  }: { readonly questions: RunQuestions; readonly asked: Set<string>; readonly stop: AbortSignal },
): Promise<void> {
  const params = { path: { session_id: sessionId }, query: { status: 'pending', limit: 100 } } as const;
  const [permissions, prompts] = await Promise.all([
    client.GET('/api/v1/sessions/{session_id}/permissions', { params, signal }),
    client.GET('/api/v1/sessions/{session_id}/prompts', { params, signal }),
  ]);
  const open = [
    ...permissions.data.data.map((request) => ({ type: 'permission_requested', request }) as const),
    ...prompts.data.data.map((request) => ({ type: 'prompt_requested', request }) as const),
  ];
  for (const event of open)
    if (!asked.has(event.request.id)) {
      asked.add(event.request.id);
      questions.see(event);
    }
  const still = new Set(open.map(({ request }) => request.id));
  for (const id of asked) if (!still.has(id)) questions.takeBack(id);
}
