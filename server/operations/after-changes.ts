/** What is left to do once a change of rights is stored: runs that were stopped notice, and files go. */
import type { Services } from '../handler.ts';

/** Those at work here notice at once, and what they have left in the background; other nodes after some seconds. */
export function wakeRuns(
  { stoppedRuns }: { readonly stoppedRuns: readonly string[] },
  { runtime }: Services,
): void {
  for (const runId of stoppedRuns) runtime.wake(runId);
  runtime.reviewLeftCommands();
}

/** What lies outside of the database, and belongs to nobody any more. */
interface Deleted {
  /** Those whose folders this server has made. */
  readonly workspaceIds: readonly string[];
  readonly sessionIds: readonly string[];
}

/** What cannot be removed now is removed by the housekeeping, which finds it by what the deletion has noted. */
export async function removeFiles(
  { workspaceIds, sessionIds }: Deleted,
  { runtime, workspaceFolders, log }: Services,
): Promise<void> {
  await runtime
    .forgetSessions(sessionIds)
    .catch((error: unknown) => log.error({ err: error }, 'what deleted sessions have left at work goes on'));
  for (const id of workspaceIds)
    await workspaceFolders
      .remove(id)
      .catch((error: unknown) =>
        log.error({ err: error }, 'the files of a deleted workspace could not be removed'),
      );
}
