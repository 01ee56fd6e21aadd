/** Records in the audit log who did what, in the transaction of the change itself. */
import type { Knex } from 'knex';
import type { Clock } from '../clock.ts';
import { newId } from '../ids.ts';
import { type AuditContent, type AuditHead, type AuditRow, hashOfEntry } from './audit-chain.ts';
import { type AuditValues, maskedChange, plainText } from './audit-values.ts';
import type { Database } from './database.ts';
import { LastWrites } from './last-writes.ts';
import type { Origin } from './reach.ts';

/** Who acts. A `Reach` fits; without a user it is somebody unknown, or with no origin either, the server itself. */
export interface AuditActor {
  readonly userId: string | null;
  readonly origin?: Origin | undefined;
}

/** What was done to what. */
export interface AuditRecord {
  /** The noun and what happened to it: `api_key.create`. */
  readonly action: `${string}.${string}`;
  readonly target: { readonly type: string; readonly id: string | null };
  /** Whose admins see it; null where it concerns the installation, and the operator alone. */
  readonly organizationId: string | null;
  /** `success` if absent. */
  readonly outcome?: 'success' | 'refused';
  /** The code of the problem with which it was refused. */
  readonly reason?: string | undefined;
  /** The fields as they were and as they are: those that are the same, and the values of secrets, are left out. */
  readonly before?: AuditValues | undefined;
  readonly after?: AuditValues | undefined;
}

interface Pending {
  readonly actor: AuditActor;
  readonly record: AuditRecord;
}

/** The one row that all recorders share is locked at the end of what they do. */
const records = new LastWrites<Pending>();

/** Records what the transaction does; only if all of it succeeds. */
export function recordAudit(sql: Knex.Transaction, actor: AuditActor, record: AuditRecord): void {
  records.add(sql, { actor, record });
}

/** The same database, whose transactions write what they have recorded before they end. */
export function writesAudit(database: Database, clock: Clock): Database {
  return records.over(database, (sql, entries) => append(sql, entries, clock.now().getTime()));
}

/** The organization that somebody has belonged to the longest: its admins see what they do with their own account. */
export async function homeOf(sql: Knex, userId: string): Promise<string | null> {
  const oldest = await sql<{ organization_id: string; user_id: string }>('memberships')
    .where({ user_id: userId })
    .orderBy('created_at')
    .first('organization_id');
  return oldest?.organization_id ?? null;
}

async function append(sql: Knex.Transaction, entries: readonly Pending[], now: number): Promise<void> {
  let head = await sql<AuditHead & { id: number }>('audit_head').where({ id: 1 }).forUpdate().first();
  if (!head) throw new Error('the audit log has lost its head');
  for (const entry of entries) {
    const row = entryBehind(head, entry, now);
    await sql('audit_entries').insert(row);
    head = { id: 1, ...headOf(row) };
    await sql('audit_head').where({ id: 1 }).update(head);
  }
}

/** The entry that follows a head. */
export function entryBehind(head: AuditHead, entry: Pending, now: number): AuditRow {
  // Another node's clock may be ahead: the chain does not go back in time.
  const content = contentOf(entry, head.sequence + 1, Math.max(now, head.created_at));
  return { ...content, prev_hash: head.hash, hash: hashOfEntry(head.hash, content) };
}

export function headOf({ sequence, created_at, hash }: AuditRow): AuditHead {
  return { sequence, created_at, hash };
}

function contentOf({ actor, record }: Pending, sequence: number, created_at: number): AuditContent {
  const { userId, origin } = actor;
  const unknown = origin ? 'anonymous' : 'system';
  return {
    sequence,
    id: newId('auditEntry'),
    created_at,
    organization_id: record.organizationId,
    actor_type: userId === null ? unknown : 'user',
    actor_id: userId,
    credential_type: origin?.credential?.kind ?? null,
    credential_id: origin?.credential?.id ?? null,
    action: record.action,
    target_type: record.target.type,
    target_id: record.target.id === null ? null : plainText(record.target.id),
    outcome: record.outcome ?? 'success',
    reason: record.reason ?? null,
    ip: origin?.address ?? null,
    request_id: origin?.requestId ?? null,
    ...maskedChange(record.before, record.after),
  };
}
