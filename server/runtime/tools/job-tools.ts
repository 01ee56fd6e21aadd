// The tools that look after commands in the background: what they write, and their end.
import { z } from 'zod';
import { endNote } from './bash.ts';
import { defineTool, success } from './define-tool.ts';
import type { Job, Jobs } from './jobs.ts';
import { type Tool, type ToolContext, ToolInputError } from './tool.ts';

const MAX_WAIT_S = 60;

const jobId = z.string().min(1).describe('The job, as bash has named it');

/** Builds the `job_output` tool. */
export function jobOutputTool(jobs: Jobs): Tool {
  return defineTool({
    name: 'job_output',
    description:
      'Gives what a command in the background has written since the last time you asked, and whether it still runs. ' +
      `With wait_seconds (at most ${MAX_WAIT_S}) it waits for news first.`,
    idempotent: false,
    needsPermission: false,
    input: z.strictObject({
      job_id: jobId,
      wait_seconds: z.number().min(0).max(MAX_WAIT_S).default(0).describe('How long to wait for news'),
    }),
    prepare({ job_id, wait_seconds }, context) {
      const job = find(jobs, job_id, context);
      return {
        permission: null,
        async run() {
          await job.news(wait_seconds * 1000, context.signal);
          context.signal.throwIfAborted();
          return success(`${job.takeUnread().trimEnd() || '(no new output)'}\n${stateOf(job)}`, factsOf(job));
        },
      };
    },
  });
}

/** Builds the `job_kill` tool. */
export function jobKillTool(jobs: Jobs): Tool {
  return defineTool({
    name: 'job_kill',
    description: 'Ends a command in the background and all that it started, and gives its last output.',
    idempotent: true,
    needsPermission: false,
    input: z.strictObject({ job_id: jobId }),
    prepare({ job_id }, context) {
      const job = find(jobs, job_id, context);
      return {
        permission: null,
        async run() {
          await job.kill();
          const output = job.takeUnread().trimEnd();
          return success(`${output ? `${output}\n` : ''}${stateOf(job)}`, factsOf(job));
        },
      };
    },
  });
}

/** Another session's jobs are not there. */
function find(jobs: Jobs, id: string, { sessionId }: ToolContext): Job {
  const job = jobs.find(sessionId, id);
  if (job) return job;
  const known = jobs.list(sessionId).map((one) => one.id);
  const others = known.length > 0 ? `there are: ${known.join(', ')}` : 'this session has none';
  throw new ToolInputError(
    `There is no job ${id}; ${others}. Commands end with the server that started them: one from before a restart is over.`,
  );
}

function stateOf(job: Job): string {
  const end = job.end();
  // Without the time, waiting for a command that writes nothing would look like going round in circles.
  if (!end) return `(It still runs, for ${Math.floor(job.ageMs() / 1000)} s by now.)`;
  return end.reason === 'interrupted'
    ? '(Ended by job_kill, with its run, or because too many commands were at work.)'
    : endNote(end, { timeout_seconds: job.timeoutSeconds });
}

function factsOf(job: Job): Record<string, unknown> {
  const end = job.end();
  return { job_id: job.id, running: end === null, exit_code: end?.exitCode ?? null };
}
