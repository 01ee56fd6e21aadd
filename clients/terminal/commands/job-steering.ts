/** `service jobs run`, `pause`, `resume` and `delete`. */
import { askYesNo, canAsk } from '../ask.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { findJob, withScheduler } from '../job-ids.ts';
import { localTime } from '../local-time.ts';
import { keyed, unless } from '../lost-answers.ts';
import { notice, print, printable } from '../output.ts';

interface Where {
  readonly server?: string;
}

export async function steerJob(
  step: 'run' | 'pause' | 'resume',
  given: string,
  { server }: Where,
): Promise<void> {
  await withScheduler(server, async (client) => {
    const { id: job_id } = await findJob(client, given);
    const params = { path: { job_id } };
    if (step === 'run') {
      const once = { ...params, header: keyed() };
      const { data } = await client.POST('/api/v1/scheduler/jobs/{job_id}/run', { params: once });
      return print(printable(`Queued ${data.id}; service jobs runs ${job_id} shows what becomes of it`));
    }
    if (step === 'pause') {
      await client.POST('/api/v1/scheduler/jobs/{job_id}/pause', { params });
      return print(printable(`Paused ${job_id}`));
    }
    const { data } = await client.POST('/api/v1/scheduler/jobs/{job_id}/resume', { params });
    print(printable(`Resumed ${job_id}, which runs next at ${localTime(data.next_runs[0] ?? '')}`));
  });
}

/** After a question. */
export async function deleteJob(
  given: string,
  { server, yes }: Where & { readonly yes?: boolean },
): Promise<void> {
  if (!yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes deletes without asking.',
      exitCodes.usage,
    );
  await withScheduler(server, async (client) => {
    const { id: job_id, name } = await findJob(client, given);
    const sure = yes || (await askYesNo(`Delete “${printable(name)}” with the history of its runs?`));
    if (!sure) return notice('Nothing was deleted.');
    const params = { path: { job_id } };
    await client.DELETE('/api/v1/scheduler/jobs/{job_id}', { params }).catch(unless(404));
    print(printable(`Deleted ${job_id}`));
  });
}
