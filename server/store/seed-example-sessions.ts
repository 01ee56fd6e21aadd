/** Seeds what runs have left: sessions, messages, file changes and questions. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Message, PermissionRequest, PromptRequest, Run, Session } from '../contract/api.ts';
import { addCost, noCost, toNanodollars } from './costs.ts';
import { at, type ExampleSeed, later, type Place } from './example-seed.ts';
import { insertChange, packChange } from './file-changes.ts';
import type { RunRow } from './runs.ts';
import { indexMessages, indexTitle } from './search-index.ts';

export async function seedFile(sql: Knex.Transaction, { runs }: ExampleSeed, path: string, text: string) {
  const run = await sql<RunRow>('runs')
    .where({ id: runs[0]?.id ?? '' })
    .first();
  if (!run) throw new Error('the example of the run is not stored');
  const bytes = Buffer.from(text);
  const after = { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, bytes };
  const change = {
    runId: run.id,
    sessionId: run.session_id,
    toolCallId: 'call_1',
    path,
    before: null,
    mode: null,
    after,
  };
  await insertChange(sql, run, change, await packChange(change), at);
}

export async function seedSession(
  sql: Knex.Transaction,
  session: Session,
  organizationId: string,
  userId: string,
) {
  const { usage, cost, context, permission_rules, tags, metadata, ...columns } = session;
  await sql('sessions').insert({
    ...columns,
    ...usage,
    ...addCost(noCost, cost),
    context_used: context.used,
    context_window: context.window,
    organization_id: organizationId,
    user_id: userId,
    permission_rules: JSON.stringify(permission_rules),
    tags: JSON.stringify(tags),
    metadata: JSON.stringify(metadata),
    run_number: 1,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
  await indexTitle(sql, { ...session, organization_id: organizationId });
  for (const tag of tags)
    await sql('session_tags').insert({
      organization_id: organizationId,
      workspace_id: session.workspace_id,
      session_id: session.id,
      tag,
      archived: session.archived,
      created_at: at,
      updated_at: at,
    });
}

export async function seedRun(sql: Knex.Transaction, run: Run, place: Place, userId: string) {
  const { usage, cost, error, ...columns } = run;
  await sql('runs').insert({
    ...columns,
    ...usage,
    ...addCost(noCost, cost),
    error: error ? JSON.stringify(error) : null,
    ...place,
    user_id: userId,
    run_number: 1,
    on_unanswered: 'wait',
    pruned_event_id: run.last_event_id,
    lease_owner: 'a-process',
    created_at: at,
    started_at: at,
    ended_at: run.ended_at ? at : null,
  });
}

export async function seedMessage(sql: Knex.Transaction, message: Message, place: Place, position: number) {
  const { parts, usage, cost, ...columns } = message;
  await sql('messages').insert({
    ...columns,
    organization_id: place.organization_id,
    parts: JSON.stringify(parts),
    usage: usage ? JSON.stringify(usage) : null,
    cost_nanodollars: toNanodollars(cost),
    run_number: 1,
    position,
    feedback: message.feedback && JSON.stringify(message.feedback),
    created_at: at,
  });
  await indexMessages(sql, [{ ...message, ...place }]);
}

export function question(request: PermissionRequest | PromptRequest, organizationId: string) {
  return {
    id: request.id,
    organization_id: organizationId,
    session_id: request.session_id,
    run_id: request.run_id,
    root_session_id: request.session_id,
    root_run_id: request.run_id,
    request: JSON.stringify(request),
    status: request.status,
    created_at: at,
    expires_at: later,
    resolved_at: request.resolved_at ? at : null,
  };
}
