/** `service plans`: what agents propose, and what became of it. */
import type { Plan } from '@service/client/api';
import { withSessions } from '../connection.ts';
import { knownIn } from '../known-values.ts';
import { localTime } from '../local-time.ts';
import { nextCommand } from '../next-command.ts';
import {
  brief,
  type Column,
  columnsOf,
  isTerminal,
  notice,
  paint,
  print,
  printable,
  printJson,
  printTable,
  type Style,
  shown,
} from '../output.ts';
import { findPlan, noSuchPlan, plansOf } from '../plan-ids.ts';
import { requireVersion } from '../plan-version.ts';
import { findSession, noSuchSession, shortIds } from '../session-ids.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

/** The latest first. On a terminal ids are as short as they may be. */
export async function listPlans(
  options: Where & {
    readonly session?: string;
    readonly status?: Plan['status'];
    readonly json?: boolean;
  },
): Promise<void> {
  const { session, status, server, json = false } = options;
  const plans = await withSessions<readonly Plan[]>(
    server,
    async (client) =>
      await Array.fromAsync(
        plansOf(client, {
          ...(session !== undefined && { session_id: (await findSession(client, session)).id }),
          ...(status !== undefined && { status }),
        }),
      ),
    () => {
      if (session === undefined) return [];
      throw noSuchSession(session);
    },
  );
  if (plans.length === 0 && !json)
    return notice('There is no such plan here. service run --agent plan "…" has one written.');
  printTable(plans, isTerminal() ? columnsForPeople(plans) : columnsForPrograms, { json });
}

const columnsForPrograms: readonly Column<Plan>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'session', value: ({ session_id }) => session_id },
  { title: 'status', value: ({ status }) => status },
  { title: 'version', value: ({ version }) => String(version) },
  { title: 'updated', value: ({ updated_at }) => updated_at },
  { title: 'title', value: ({ title }) => title },
];

const looks: Readonly<Record<Plan['status'], Style>> = {
  draft: 'dim',
  proposed: 'yellow',
  approved: 'cyan',
  executing: 'cyan',
  done: 'green',
  failed: 'red',
  rejected: 'dim',
};

function columnsForPeople(plans: readonly Plan[]): readonly Column<Plan>[] {
  const short = shortIds(plans.map(({ id }) => id));
  const shortSession = shortIds(plans.map(({ session_id }) => session_id));
  const width = Math.max(20, columnsOf() - 60);
  return [
    { title: 'id', value: ({ id }) => short(id), style: 'cyan' },
    { title: 'session', value: ({ session_id }) => shortSession(session_id) },
    { title: 'updated', value: ({ updated_at }) => localTime(updated_at), style: 'dim' },
    { title: 'status', value: ({ status }) => status, style: ({ status }) => knownIn(looks, status) },
    { title: 'version', value: ({ version }) => String(version) },
    { title: 'title', value: ({ title }) => brief(title, width) },
  ];
}

/** Its newest version, with what became of it. */
export async function showPlan(given: string, { server, json = false }: Where & { readonly json?: boolean }) {
  const plan = await withSessions<Plan>(server, (client) => findPlan(client, given), nowhere(given));
  if (json) return printJson(plan);
  print(describePlan(plan));
}

function describePlan(plan: Plan): string {
  const { id, session_id, title, content, status, version, comment, carried_out_by: run } = plan;
  const facts = [id, `version ${version}`, `changed ${localTime(plan.updated_at)}`, session_id];
  const look = knownIn(looks, status);
  const state = look === null ? printable(status) : paint(look, status);
  const by = run === null ? '' : ` (${run})`;
  return [
    paint('bold', printable(title)),
    `${state} ${paint('dim', printable(`· ${facts.join(' · ')}${by}`))}`,
    ...(comment === null ? [] : [`“${isTerminal() ? shown(comment) : comment}”`]),
    '',
    (isTerminal() ? shown(content) : content).trimEnd(),
  ].join('\n');
}

/** The agent is told at the next query of the session. */
export async function rejectPlan(
  given: string,
  words: readonly string[],
  options: Where & { readonly planVersion?: string; readonly json?: boolean },
): Promise<void> {
  const comment = words.join(' ').trim();
  const plan = await withSessions<Plan>(
    options.server,
    async (client) => {
      const found = await findPlan(client, given);
      requireVersion(found, options.planVersion);
      const body = { version: found.version, ...(comment && { comment }) };
      const params = { path: { plan_id: found.id } };
      return (await client.POST('/api/v1/plans/{plan_id}/reject', { params, body })).data;
    },
    nowhere(given),
  );
  if (options.json) return printJson(plan);
  print(printable(`Rejected ${plan.id}, version ${plan.version}: ${plan.title}`));
  if (!isTerminal(process.stderr)) return;
  const short = shortIds([plan.session_id])(plan.session_id);
  const next = nextCommand('run', options.server, `--session ${short} --agent plan "Plan again"`);
  notice(`The agent is told at the next query, as ${next}.`);
}

function nowhere(given: string): () => never {
  return () => {
    throw noSuchPlan(given);
  };
}
