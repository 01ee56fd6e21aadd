/** What a run asks a person: one question after the other on the terminal; without one, refused at once. */
import type { ServiceClient } from '@service/client';
import type { PermissionRequest, PromptRequest, RuntimeEvent } from '@service/client/api';
import { replyPermission, replyPrompt } from '@service/client/reply';
import { notice } from '../output.ts';
import type { Keyboard } from '../terminal-input.ts';
import { answer, deliver, elsewhere, type Send, tooLate } from './answers.ts';
import { askPermission } from './permission-questions.ts';
import { askPrompt } from './prompt-questions.ts';
import type { RunDisplay } from './run-display.ts';

/** Sees every event of a run, and answers those that ask. */
export interface RunQuestions {
  see(event: RuntimeEvent): void;
  /** Nobody waits for an answer to this question any more. */
  takeBack(requestId: string): void;
  /** The run is to stop: gives up what is open, and asks nothing any more. */
  giveUp(): void;
  /** Gives up what is open, and waits until it has left the terminal. */
  close(): Promise<void>;
}

/** @param keyboard - Null where nobody can be asked. */
export function createRunQuestions(
  client: ServiceClient,
  display: RunDisplay,
  keyboard: Keyboard | null,
): RunQuestions {
  const open = new Map<string, AbortController>();
  /** The agents that agents have started, by their sessions. */
  const agents = new Map<string, string>();
  const refusedTools = new Set<string>();
  const over = new AbortController();
  let last: Promise<void> = Promise.resolve();
  let stopping = false;

  const within = (late: AbortSignal) => ({ signal: AbortSignal.any([over.signal, late]) });
  const enqueue = (id: string, ask: (keys: Keyboard, signal: AbortSignal) => Promise<unknown>) => {
    const controller = new AbortController();
    open.set(id, controller);
    display.hold();
    last = last
      .then(() => (keyboard && !controller.signal.aborted ? ask(keyboard, controller.signal) : undefined))
      .catch((error: unknown) => {
        if (error === ended) return;
        process.stderr.write(`  → ${error instanceof Error ? error.message : String(error)}\n`);
      })
      .then(() => {
        open.delete(id);
        if (open.size === 0) display.goOn();
      });
  };
  const refuse = (request: PermissionRequest) => {
    const { tool_name: tool } = request;
    const remedy = `Allow it with ${entriesFor(request)} in permissions.allowed_tools of the settings, or let everything pass with --yolo.`;
    if (!refusedTools.has(tool)) notice(`${tool} was refused: there is no terminal to ask at. ${remedy}`);
    refusedTools.add(tool);
    const message = `Nobody is there to ask. ${remedy}`;
    send(
      (late) => replyPermission(client, request, { decision: 'deny', message }, within(late)),
      over.signal,
    );
  };
  const giveUp = () => {
    stopping = true;
    for (const controller of open.values()) controller.abort(ended);
    // An answer that is on its way and gets no answer itself would be waited for, for minutes.
    over.abort(ended);
  };
  const askerOf = ({ session_id: session }: { session_id: string }) => agents.get(session) ?? null;
  return {
    see(event) {
      if (event.type === 'agent_started')
        agents.set(event.session_id, `${event.agent_slug}: ${event.description}`);
      else if (stopping && 'request' in event) return;
      else if (event.type === 'permission_requested' && !keyboard) refuse(event.request);
      else if (event.type === 'permission_requested')
        enqueue(event.request.id, (keys, signal) =>
          answer(
            () => askPermission(event.request, askerOf(event.request), keys, signal),
            (reply, late) => replyPermission(client, event.request, reply, within(late)),
            signal,
          ),
        );
      else if (event.type === 'prompt_requested' && !keyboard) decline(client, event.request, over.signal);
      else if (event.type === 'prompt_requested')
        enqueue(event.request.id, (keys, signal) =>
          answer(
            () => askPrompt(event.request, askerOf(event.request), keys, signal),
            (reply, late) => replyPrompt(client, event.request, reply, within(late)),
            signal,
          ),
        );
      else if (event.type === 'permission_expired' || event.type === 'prompt_expired')
        open.get(event.request_id)?.abort(tooLate);
      // Answered, here or from elsewhere.
      else if ('request_id' in event && event.request_id !== null)
        open.get(event.request_id)?.abort(elsewhere);
    },
    takeBack: (requestId) => open.get(requestId)?.abort(elsewhere),
    giveUp,
    async close() {
      giveUp();
      await last;
    },
  };
}

/** What would allow the call for good; where it cannot be told apart from others, all calls of its kind. */
function entriesFor({ tool_name: tool, action, grants }: PermissionRequest): string {
  const patterns = grants.length > 0 ? grants : ['*'];
  const entries = patterns.map((pattern) => (pattern === '*' ? `${tool}:${action}` : `${tool}(${pattern})`));
  return entries.map((entry) => JSON.stringify(entry)).join(' and ');
}

const ended = new Error('The run has ended.');

function decline(client: ServiceClient, request: PromptRequest, over: AbortSignal): void {
  notice('The agent asked a question, and there is no terminal to answer it at: it goes on without.');
  const reply: Send = (late) =>
    replyPrompt(client, request, { cancelled: true }, { signal: AbortSignal.any([over, late]) });
  send(reply, over);
}

/** Of a question that is over the run's own events say what became of it. */
function send(reply: Send, over: AbortSignal): void {
  deliver(reply, over).then(
    (refusal) => refusal && notice(`The answer was refused. ${refusal.message}`),
    () => undefined,
  );
}
