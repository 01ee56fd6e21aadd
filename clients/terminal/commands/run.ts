/** `service run`: asks the agent something, and shows what it does until it has answered. */
import type { ServiceClient } from '@service/client';
import type { QueryRequest, Session } from '@service/client/api';
import { findCorpus } from '../corpora/corpus-names.ts';
import { CommandFailure } from '../failures.ts';
import { brief, notice } from '../output.ts';
import type { Project } from '../project.ts';
import { atWork, beginsAfter, type Work } from '../run/at-work.ts';
import { followRun } from '../run/follow-run.ts';
import { readPrompt } from '../run/prompt-input.ts';
import { latestThere } from '../server-sessions.ts';
import { findSession, latestSession, shortIds } from '../session-ids.ts';

/** The options of the command line. */
export interface RunWishes {
  readonly model?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly continue?: boolean;
  /** Its name, or enough of its id. */
  readonly corpus?: string;
  readonly quiet?: boolean;
  readonly json?: boolean;
  readonly yolo?: boolean;
  readonly requireTrust?: boolean;
  readonly server?: string;
}

/** Runs to the end of the answer; how it ended is the exit code. */
export async function run(words: readonly string[], wishes: RunWishes): Promise<void> {
  const prompt = await readPrompt(words);
  await runPrompt(() => prompt, wishes);
}

/** As `run`, with a prompt that follows from the project's settings, where these count. */
export async function runPrompt(
  promptFor: (project: Project | null) => string,
  wishes: RunWishes,
): Promise<void> {
  await atWork(wishes, (work) => ask(promptFor(work.project), wishes, work));
}

async function ask(prompt: string, wishes: RunWishes, { client, ...work }: Work): Promise<void> {
  const session = await chooseSession(client, wishes, work);
  if (session) await beginsAfter(client, session, wishes, work);
  work.stop.throwIfAborted();
  const corpusId =
    wishes.corpus === undefined ? null : (await findCorpus(client, wishes.corpus, work.stop)).id;
  const place = { sessionId: session?.id ?? null, corpusId };
  const query = queryOf(prompt, place, wishes);
  const planAgain = (sessionId: string, why: string) => queryOf(why, { sessionId, corpusId }, wishes);
  await followRun(client, { query }, { ...wishes, ...work, planAgain });
}

function queryOf(
  prompt: string,
  { sessionId, corpusId }: { readonly sessionId: string | null; readonly corpusId: string | null },
  { model, agent, yolo }: RunWishes,
): QueryRequest {
  return {
    prompt,
    ...(sessionId !== null && { session_id: sessionId }),
    ...(corpusId !== null && { corpus_id: corpusId }),
    ...(model !== undefined && { model }),
    ...(agent !== undefined && { agent_slug: agent }),
    ...(yolo && { permission_mode: 'bypass' }),
  };
}

/** Null for a new one. */
async function chooseSession(
  client: ServiceClient,
  wishes: RunWishes,
  { progress, stop }: Pick<Work, 'progress' | 'stop'>,
): Promise<Session | null> {
  if (wishes.session !== undefined) return await findSession(client, wishes.session, stop);
  if (!wishes.continue) return null;
  const { server, quiet = false } = wishes;
  const latest =
    server === undefined ? await latestSession(client, stop) : await latestThere(client, server, stop);
  if (!latest)
    throw new CommandFailure('There is no session to go on in. Leave out --continue to begin one.');
  progress.hide();
  if (!quiet)
    notice(`This goes on in session ${shortIds([latest.id])(latest.id)}: ${brief(latest.title, 60)}`);
  return latest;
}
