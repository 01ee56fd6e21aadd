/** `service jobs create` and `service jobs preview`: when something is to run, as people write it. */
import type { JobCreate, SchedulePreviewRequest } from '@service/client/api';
import { CommandFailure, exitCodes } from '../failures.ts';
import { withScheduler } from '../job-ids.ts';
import { localTime, momentIn } from '../local-time.ts';
import { keyed } from '../lost-answers.ts';
import { brief, type Column, print, printable, printTable } from '../output.ts';
import { findSession } from '../session-ids.ts';

interface When {
  readonly server?: string;
  readonly cron?: string;
  readonly every?: string;
  readonly at?: string;
  readonly timezone?: string;
}

interface JobOptions extends When {
  readonly name?: string;
  readonly agent?: string;
  readonly model?: string;
  readonly session?: string;
  readonly allow?: readonly string[];
  readonly overlap?: JobCreate['overlap_policy'];
  readonly misfire?: JobCreate['misfire_policy'];
  readonly retries?: string;
  readonly timeout?: string;
}

export async function createJob(words: readonly string[], options: JobOptions): Promise<void> {
  const prompt = words.join(' ').trim();
  if (prompt === '') throw new CommandFailure('There is nothing to ask.', exitCodes.usage);
  const {
    // Of emoji that are joined, a few cells are many characters.
    name = [...brief(prompt, 60)].slice(0, 200).join(''),
    agent,
    model,
    session,
    allow,
    overlap,
    misfire,
    retries,
    timeout,
  } = options;
  const schedule = scheduleIn(options);
  await withScheduler(options.server, async (client) => {
    const ofSession = session === undefined ? null : (await findSession(client, session)).id;
    const body = {
      ...{ name, prompt, ...schedule },
      ...(agent !== undefined && { agent_slug: agent }),
      ...(model !== undefined && { model }),
      ...(ofSession !== null && { session_mode: 'reuse' as const, session_id: ofSession }),
      ...(allow && { permission_rules: allow.map(ruleOf) }),
      ...(overlap && { overlap_policy: overlap }),
      ...(misfire && { misfire_policy: misfire }),
      ...(retries !== undefined && { max_retries: wholeNumber(retries) }),
      ...(timeout !== undefined && { timeout_s: secondsOf('--timeout', timeout) }),
    };
    const { data } = await client.POST('/api/v1/scheduler/jobs', { body, params: { header: keyed() } });
    const [next] = data.next_runs;
    const when = next ? `, which runs next at ${localTime(next)}` : '';
    print(printable(`Made ${data.id}${when}`));
  });
}

export async function previewSchedule(options: When & { readonly json?: boolean }): Promise<void> {
  const body: SchedulePreviewRequest = scheduleIn(options);
  const { data } = await withScheduler(options.server, (client) =>
    client.POST('/api/v1/scheduler/jobs/preview', { body }),
  );
  const columns: readonly Column<(typeof data.data)[number]>[] = [
    { title: 'at', value: ({ at }) => at },
    { title: 'local', value: ({ local }) => local },
    { title: 'note', value: ({ note }) => note ?? '', style: 'yellow' },
  ];
  printTable(data.data, columns, { json: options.json });
}

/** The zone of whoever writes the pattern is the one that they mean. */
function scheduleIn({ cron, every, at, timezone }: When) {
  if ([cron, every, at].filter((given) => given !== undefined).length !== 1)
    throw new CommandFailure(
      'Say when, by one of --cron "0 2 * * *", --every 6h and --at 2027-01-31T18:00.',
      exitCodes.usage,
    );
  return {
    timezone: timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    ...(cron !== undefined && { cron: patternOf(cron) }),
    ...(every !== undefined && { interval_s: secondsOf('--every', every) }),
    ...(at !== undefined && { run_at: momentIn('--at', at, timezone) }),
  };
}

/** What is in the fields the server says. */
function patternOf(cron: string): string {
  if ([5, 6].includes(cron.trim().split(/\s+/).length)) return cron;
  throw new CommandFailure(
    `--cron takes five fields, as "0 2 * * 1-5" for two o'clock from Monday to Friday, and not ${JSON.stringify(cron)}.`,
    exitCodes.usage,
  );
}

/** `tool`, or `tool:pattern`. */
function ruleOf(text: string) {
  const [, tool = text, pattern] = /^([^:]+):(.+)$/s.exec(text) ?? [];
  return { tool, decision: 'allow' as const, ...(pattern !== undefined && { pattern }) };
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

function secondsOf(option: string, text: string): number {
  const [, amount, unit = ''] = /^([1-9]\d{0,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined) return Number(amount) * (units[unit] ?? 1);
  throw new CommandFailure(
    `${option} takes a duration as 90m, 6h or 1d, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}

function wholeNumber(text: string): number {
  if (/^\d{1,2}$/.test(text)) return Number(text);
  throw new CommandFailure(
    `--retries takes a number up to 10, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}
