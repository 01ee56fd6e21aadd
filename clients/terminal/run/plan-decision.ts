/** Lets the person at the terminal decide about the plan that a run has just written. */
import type { ServiceClient } from '@service/client';
import type { Plan, PlanApproval, QueryRequest } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { keyed } from '../lost-answers.ts';
import { notice, paint, printable } from '../output.ts';
import type { Keyboard } from '../terminal-input.ts';
import type { Beginning } from './watch-run.ts';

/** What the person's answer is carried out with. */
export interface PlanWishes {
  readonly yolo?: boolean;
  readonly model?: string;
  readonly planAgain: (sessionId: string, why: string) => QueryRequest;
  readonly stop: AbortSignal;
}

/** As the contract has it. */
const longestComment = 4000;

const offers = [
  { key: 'a', offer: 'approve and carry it out', quick: false },
  // Whoever lets everything pass has nothing to let pass besides.
  { key: 'e', offer: 'the same, changing files unasked', quick: true },
  { key: 'r', offer: 'reject, saying why', quick: false },
  { key: 'l', offer: 'later', quick: false },
] as const;
/** Enter, Ctrl+D and Escape decide nothing. */
const laterKeys = ['l', '\r', '\n', '\x04', '\x1b'];

/** The run that follows; `decided` where none does; null where the plan still waits. */
export async function decideOnPlan(
  client: ServiceClient,
  plan: Plan,
  keyboard: Keyboard,
  wishes: PlanWishes,
): Promise<Beginning | 'decided' | null> {
  try {
    const key = await askForKey(plan, keyboard, wishes);
    if (key === 'r') return await reject(client, plan, keyboard, wishes);
    if (laterKeys.includes(key)) return null;
    return await approve(client, plan, key === 'e' ? { permission_mode: 'accept_edits' } : {}, wishes);
  } catch (error) {
    // Ctrl+C: nothing was decided.
    if (wishes.stop.aborted) return null;
    if (!(error instanceof ServiceError) || error.code !== 'already_answered') throw error;
    notice(`It was decided elsewhere meanwhile. ${error.detail}`);
    return 'decided';
  }
}

async function askForKey(
  { title, version }: Plan,
  keyboard: Keyboard,
  { yolo = false, stop }: PlanWishes,
): Promise<string> {
  const offered = offers.filter(({ quick }) => !quick || !yolo);
  const keys = [...offered.map(({ key }) => key), ...laterKeys];
  const question = `? Shall the plan be carried out? ${printable(title)}, version ${version}`;
  const line = offered.map(({ key, offer }) => `  ${tone('bold', key)} ${offer}`).join(' ');
  const ask = () => say(`\n${tone('yellow', question)}\n${line}`);
  const wrong = () => say(tone('dim', `  Press ${offered.map(({ key }) => key).join(', ')}.`));
  return await keyboard.readKey(keys, ask, stop, { careful: true, wrong });
}

async function approve(
  client: ServiceClient,
  { id, version }: Plan,
  chosen: Pick<PlanApproval, 'permission_mode'>,
  { yolo, model }: PlanWishes,
): Promise<Beginning> {
  const body: PlanApproval = {
    version,
    ...(model !== undefined && { model }),
    ...(yolo ? { permission_mode: 'bypass' } : chosen),
  };
  // A lost answer is asked for again, and a second approval would be refused.
  const params = { path: { plan_id: id }, header: keyed() };
  const { data } = await client.POST('/api/v1/plans/{plan_id}/approve', { params, body });
  say(tone('green', '  → approved'));
  return { runId: data.id };
}

/** A word on why sends the agent back to planning: the refusal and the word are told to it together. */
async function reject(
  client: ServiceClient,
  { id, version, session_id: sessionId }: Plan,
  keyboard: Keyboard,
  { planAgain, stop }: PlanWishes,
): Promise<Beginning | 'decided' | null> {
  const question =
    '  What should be otherwise? The agent plans again; without a word it ends here. Ctrl+D: later.';
  const line = await keyboard.readLine('  > ', stop, { ask: () => say(tone('dim', question)) });
  if (line === null) return null;
  const why = line.replaceAll('\0', '').trim();
  const params = { path: { plan_id: id } };
  // No half of a character is sent.
  const comment = why.slice(0, longestComment).replace(/[\ud800-\udbff]$/, '');
  const body = { version, ...(comment && { comment }) };
  await client.POST('/api/v1/plans/{plan_id}/reject', { params, body });
  say(tone('red', '  → rejected'));
  return why ? { query: planAgain(sessionId, why) } : 'decided';
}

function tone(style: 'bold' | 'dim' | 'yellow' | 'green' | 'red', text: string): string {
  return paint(style, text, process.stderr);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
