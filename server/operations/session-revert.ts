/** Goes back in a session with its files: looks first, then puts all of them back, or none. */
import type { FieldError, RevertConflict, SessionRevert, SessionReverted } from '../contract/api.ts';
import type { Principal, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { diffOf } from './session-diff.ts';

type Parts = Pick<Services, 'store' | 'runtime' | 'log'>;

/** Throws what the store throws, and `revert_conflict`. */
export async function revertTo(
  principal: Principal,
  sessionId: string,
  { to_message_id, files, dry_run }: SessionRevert,
  { store, runtime, log }: Parts,
): Promise<SessionReverted> {
  const plan = await store.history.planRevert(principal, sessionId, to_message_id);
  const read = (sha256: string) => store.fileChanges.content(principal, sessionId, sha256);
  const changed = files ? plan.files : [];
  const putBack = await runtime.planPutBack(
    plan.workspaceId,
    changed.map(({ path, before, beforeLast, after, mode }) => ({
      ...{ path, mode },
      // The last change may have been recorded and then not made. Work that lies in between would go whatever is there.
      known: plan.changedBetween.has(path) ? [] : [after?.sha256 ?? null, beforeLast?.sha256 ?? null],
      target: before?.sha256 ?? null,
      read: async () => (before ? read(before.sha256) : null),
    })),
    plan.changedIn,
  );
  if (!dry_run && putBack.conflicts.length > 0) throw conflictProblem(putBack.conflicts);
  const sizes = new Map(
    changed.flatMap(({ before, beforeLast, after }) =>
      [before, beforeLast, after].flatMap((state) => (state ? [[state.sha256, state] as const] : [])),
    ),
  );
  const stateOf = (sha256: string | null) => (sha256 === null ? null : (sizes.get(sha256) ?? null));
  const compared = putBack.files.map(({ path, present, target }) => ({
    path,
    before: stateOf(present),
    after: stateOf(target),
  }));
  const diff = await diffOf(sessionId, compared, read);
  if (!dry_run) {
    await carryOut(principal, plan, files, putBack, { store, log });
    runtime.forgetFiles(sessionId, putBack.realPaths);
  }
  const conflicts: RevertConflict[] = putBack.conflicts.map((conflict) => ({ ...conflict }));
  return { ...diff, dry_run, reverted_messages: plan.messages, conflicts };
}

type RevertPlan = Awaited<ReturnType<Services['store']['history']['planRevert']>>;
type PutBackPlan = Awaited<ReturnType<Services['runtime']['planPutBack']>>;

/**
 * Takes the files first and then the database, as a tool does that changes a file and records it. The other way round,
 * the two would wait for each other, and on SQLite everybody else who writes for both.
 */
async function carryOut(
  principal: Principal,
  plan: RevertPlan,
  files: boolean,
  putBack: PutBackPlan,
  { store, log }: Pick<Parts, 'store' | 'log'>,
): Promise<void> {
  const staged = await putBack.stage();
  try {
    await staged.locked(() => goBack(principal, plan, files, staged, store));
  } finally {
    // By then all is done, or the caller is told of what was not.
    await staged.clear().catch((error: unknown) => {
      log.error(
        { err: error, session: plan.sessionId },
        'what lay beside reverted files was not all removed',
      );
    });
  }
}

/**
 * The files change within the transaction: should it fail, they are as they were. Where its answer alone was lost, the
 * database tells what became of it. Where it cannot, they stay as they were to become: asked again, nothing stands in
 * the way of that.
 */
async function goBack(
  principal: Principal,
  plan: RevertPlan,
  files: boolean,
  staged: Pick<Awaited<ReturnType<PutBackPlan['stage']>>, 'apply' | 'undo'>,
  store: Services['store'],
): Promise<void> {
  let applied = false;
  try {
    await store.history.revert(principal, plan, files, async () => {
      await staged.apply();
      applied = true;
    });
  } catch (error) {
    const outcome = applied ? await outcomeOf(principal, plan, store) : 'undone';
    if (outcome === 'done') return;
    if (outcome === 'undone') await staged.undo();
    if (error instanceof Error && error.name === 'FileMoved')
      throw new Problem('revert_conflict', `${error.message} Nothing was changed; look again.`, {
        cause: error,
      });
    throw error;
  }
}

async function outcomeOf(
  principal: Principal,
  { sessionId, messageId }: RevertPlan,
  { history }: Services['store'],
): Promise<'done' | 'undone' | 'unknown'> {
  try {
    return (await history.isReverted(principal, sessionId, messageId)) ? 'done' : 'undone';
  } catch {
    return 'unknown'; // The caller is told of the failure that came first.
  }
}

const reasons: Readonly<Record<RevertConflict['reason'], string>> = {
  changed: 'Somebody else has changed it, since or in between.',
  not_kept: 'Its earlier content was too large to keep.',
  protected: 'Tools may not write there.',
  not_a_file: 'A folder, a link or something else is in its place.',
};

/** So many are named; more would help nobody. */
const mostNamed = 100;

function conflictProblem(
  conflicts: readonly { readonly path: string; readonly reason: RevertConflict['reason'] }[],
) {
  const errors: FieldError[] = conflicts.slice(0, mostNamed).map(({ path, reason }) => ({
    ...{ in: 'body', pointer: '/files', name: path },
    ...{ message: reasons[reason], code: reason },
  }));
  const what = conflicts.length === 1 ? '1 file' : `${conflicts.length} files`;
  return new Problem(
    'revert_conflict',
    `${what} cannot be restored. Nothing was changed; send files: false to revert without files.`,
    { errors },
  );
}
