/** `service plans approve`: begins the run that carries a plan out, and follows it. */
import type { PlanApproval, QueryRequest } from '@service/client/api';
import { keyed } from '../lost-answers.ts';
import { paint, printable } from '../output.ts';
import { findPlan } from '../plan-ids.ts';
import { requireVersion } from '../plan-version.ts';
import { atWork, beginsAfter, type Work, type WorkWishes } from '../run/at-work.ts';
import { followRun } from '../run/follow-run.ts';

/** The options of the command line. */
export interface ApprovalWishes extends WorkWishes {
  readonly comment?: string;
  readonly planVersion?: string;
  readonly model?: string;
  readonly agent?: string;
  readonly acceptEdits?: boolean;
  readonly yolo?: boolean;
}

/** Runs to the end of what the plan says; how that ended is the exit code. */
export async function approvePlan(given: string, wishes: ApprovalWishes): Promise<void> {
  await atWork(wishes, (work) => approveAndFollow(given, wishes, work));
}

async function approveAndFollow(
  given: string,
  wishes: ApprovalWishes,
  { client, ...work }: Work,
): Promise<void> {
  const plan = await findPlan(client, given, work.stop);
  requireVersion(plan, wishes.planVersion);
  const { id, version, title, session_id } = plan;
  const { data: session } = await client.GET('/api/v1/sessions/{session_id}', {
    params: { path: { session_id } },
    signal: work.stop,
  });
  await beginsAfter(client, session, wishes, work);
  work.stop.throwIfAborted();
  // A lost answer is asked for again, and a second approval would be refused.
  const params = { path: { plan_id: id }, header: keyed() };
  const body = { ...approvalOf(wishes), version };
  const { data: run } = await client.POST('/api/v1/plans/{plan_id}/approve', { params, body });
  work.progress.hide();
  if (!wishes.quiet && !wishes.json)
    process.stderr.write(
      `${paint('bold', `▤ ${printable(title)}, version ${version}: approved`, process.stderr)}\n`,
    );
  const planAgain = (sessionId: string, why: string) => queryOf(why, sessionId, wishes);
  await followRun(client, { runId: run.id }, { ...wishes, ...work, planAgain });
}

function approvalOf({ comment, ...wishes }: ApprovalWishes): PlanApproval {
  const words = comment?.trim();
  return { ...(words && { comment: words }), ...ofAnyRun(wishes) };
}

/** Where what carries the plan out has written another one, and that is refused with a word. */
function queryOf(prompt: string, session_id: string, wishes: ApprovalWishes): QueryRequest {
  return { prompt, session_id, ...ofAnyRun(wishes) };
}

/** What is said of one run of the command is said of all. */
function ofAnyRun({ model, agent, acceptEdits, yolo }: Omit<ApprovalWishes, 'comment'>) {
  return {
    ...(model !== undefined && { model }),
    ...(agent !== undefined && { agent_slug: agent }),
    ...(acceptEdits && { permission_mode: 'accept_edits' as const }),
    ...(yolo && { permission_mode: 'bypass' as const }),
  };
}
