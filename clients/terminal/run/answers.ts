/** Brings what a person answers to the server, until it is taken or nobody waits for it any more. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionError, ServiceError } from '@service/client/errors';
import { notice } from '../output.ts';

/** What a person has answered. */
export interface Answered<Reply> {
  readonly reply: Reply;
  /** What stands on the terminal once the answer counts; null where nothing need be said. */
  readonly said: string | null;
}

/** Why a question is over, in the words for the person. */
export const elsewhere = new Error('It was answered elsewhere.');
const already = new Error('It is answered already.');
export const tooLate = new Error('It is too late for an answer.');

const waitMs = { first: 500, longest: 5000 };
/** Where a network has gone without a word, a request would be waited for, for minutes. To answer one takes milliseconds. */
const patienceMs = 30_000;

/** Sends something, and gives it up where the signal says that it takes too long. */
export type Send = (late: AbortSignal) => Promise<unknown>;

/**
 * Asks, and asks again where the server refuses the answer: the run would wait for another one until the question
 * expires. Rejects with the reason of the signal, or with one of those above, where the question is over.
 */
export async function answer<Reply>(
  ask: () => Promise<Answered<Reply>>,
  send: (reply: Reply, late: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const { reply, said } = await ask();
    const refusal = await deliver((late) => send(reply, late), signal);
    if (refusal === null) return void (said === null || process.stderr.write(`${said}\n`));
    notice(`The answer was refused.\n${refusal.message}`);
  }
}

/**
 * Sends an answer, or an interrupt, until the server has one: twice does no more than once. Null where it is taken, else
 * why it is none. A network that is away comes back, or the stream of the run ends, which aborts the signal.
 */
export async function deliver(
  send: Send,
  signal: AbortSignal,
  { what = 'answer', limitMs = patienceMs }: { readonly what?: string; readonly limitMs?: number } = {},
): Promise<Error | null> {
  for (let wait = waitMs.first; ; wait = Math.min(2 * wait, waitMs.longest)) {
    const late = AbortSignal.timeout(limitMs);
    try {
      await send(late);
      return null;
    } catch (failure) {
      const error = late.aborted && !(failure instanceof ServiceError) ? silence(limitMs, failure) : failure;
      // Where only the word of its being taken was lost, the run says that there is an answer.
      if (signal.aborted) throw signal.reason === elsewhere ? already : signal.reason;
      if (!(error instanceof Error)) throw error;
      const over = isOfTheService(error) ? endings[error.status] : undefined;
      if (over) throw over;
      if (!mayPass(error)) return error;
      if (wait === waitMs.first) notice(`The ${what} did not arrive, and is sent again.\n${error.message}`);
    }
    // The reason is that of the signal, and not the one that the timer makes of it.
    await sleep(wait, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function silence(limitMs: number, cause: unknown): ConnectionError {
  return new ConnectionError(`The server said nothing for ${limitMs / 1000} s.`, cause);
}

/** Not the page of a proxy. */
function isOfTheService(error: Error): error is ServiceError {
  return error instanceof ServiceError && error.code !== 'unrecognized_answer';
}

/** Not found, already answered, and gone: the question itself, and not the answer, is the matter. */
const endings: Readonly<Record<number, Error>> = { 404: tooLate, 409: already, 410: tooLate };

function mayPass(error: Error): boolean {
  if (error instanceof ServiceError)
    return error.status === 429 || error.status >= 502 || error.status in endings;
  return error instanceof ConnectionError;
}
