/** Whether there is room for the files that messages bring into a session. */
import type { Knex } from 'knex';
import type { MessagePart } from '../contract/api.ts';
import type { Spender } from './meter.ts';
import { type QuotaWarning, quotaStateWithBytes, refuseExceeded } from './quota-check.ts';

/** In the transaction that has stored them. Throws `quota_exceeded`, or answers with what there is to say. */
export async function refuseKept(
  sql: Knex.Transaction,
  spender: Spender,
  { sessionId, before }: { readonly sessionId: string; readonly before: number },
  now: number,
): Promise<readonly QuotaWarning[]> {
  const row = await sql<{ id: string; kept_bytes: number }>('sessions')
    .where({ id: sessionId })
    .first('kept_bytes');
  const bytes = Number(row?.kept_bytes ?? 0) - before;
  return bytes > 0 ? refuseExceeded(await quotaStateWithBytes(sql, spender, bytes, now), now) : [];
}

/** Most messages bring none, and nothing has to be asked for them. A file with an address can have bytes all the same. */
export function bringsFiles(messages: readonly { readonly parts: readonly MessagePart[] }[]): boolean {
  return messages.some(({ parts }) =>
    parts.some((part) => part.type === 'file' && (part.data !== undefined || part.sha256 !== undefined)),
  );
}
