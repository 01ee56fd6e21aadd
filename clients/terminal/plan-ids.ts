/** Plans by their id or that of their session, or by enough of the end of one of them. */
import type { ServiceClient } from '@service/client';
import type { Plan } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from './failures.ts';
import { printable } from './output.ts';

const wholeId = /^plan_[0-9a-hjkmnp-tv-z]{26}$/;

/** The one plan that is meant; of a session, the latest. */
export async function findPlan(
  client: ServiceClient,
  given: string,
  signal: AbortSignal | null = null,
): Promise<Plan> {
  const end = given.trim().toLowerCase();
  if (wholeId.test(end)) {
    const params = { path: { plan_id: end } };
    return (await client.GET('/api/v1/plans/{plan_id}', { params, signal })).data;
  }
  const plans = await allPlans(client, signal);
  const named = plans.filter(({ id }) => end !== '' && id.endsWith(end));
  const found = named.length > 0 ? named : latestOfSessions(plans, end);
  const [only] = found;
  if (only && found.length === 1) return only;
  throw found.length === 0 ? noSuchPlan(given) : new CommandFailure(ambiguous(given, found));
}

/** The latest first. */
export function plansOf(
  client: ServiceClient,
  filter: { readonly session_id?: string; readonly status?: Plan['status'] },
  signal: AbortSignal | null = null,
): AsyncGenerator<Plan> {
  return paginate((page) =>
    client.GET('/api/v1/plans', { params: { query: { ...page, ...filter, limit: 100 } }, signal }),
  );
}

/** Says how to find one that there is. */
export function noSuchPlan(given: string): CommandFailure {
  return new CommandFailure(
    `There is no plan whose id, or whose session's id, is or ends with ${JSON.stringify(given)}. service plans list shows those that are there.`,
  );
}

async function allPlans(client: ServiceClient, signal: AbortSignal | null): Promise<readonly Plan[]> {
  return await Array.fromAsync(plansOf(client, {}, signal));
}

function latestOfSessions(plans: readonly Plan[], end: string): readonly Plan[] {
  const latest = new Map<string, Plan>();
  for (const plan of plans)
    if (end !== '' && plan.session_id.endsWith(end) && !latest.has(plan.session_id))
      latest.set(plan.session_id, plan);
  return [...latest.values()];
}

function ambiguous(given: string, found: readonly Plan[]): string {
  const lines = found.slice(0, 10).map(({ id, title }) => `  ${id}  ${printable(title)}`);
  const more = found.length > lines.length ? [`  and ${found.length - lines.length} more`] : [];
  return [
    `${found.length} plans are meant by ${JSON.stringify(given)}. Name more of the id:`,
    ...lines,
    ...more,
  ].join('\n');
}
