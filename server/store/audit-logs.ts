/** The audit log as it is read: by the admins of an organization what concerns it, by the operator all of it. */
import type { Knex } from 'knex';
import type { AuditEntry, AuditVerification, operations } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { type AuditActor, type AuditRecord, recordAudit } from './audit.ts';
import type { WrittenAnchor } from './audit-anchors.ts';
import { pruneAuditLog } from './audit-base.ts';
import type { Anchor, AuditRow } from './audit-chain.ts';
import { countingAnchors } from './audit-restore.ts';
import { plainText } from './audit-values.ts';
import { anchorFault, createVerification, readHead } from './audit-verification.ts';
import type { Scope } from './database.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole, wholeOrganizations } from './reach.ts';
import { timestamp } from './timestamps.ts';

/** Who reads. The operator reads all. */
export type AuditReader = Reach & { readonly operator: boolean };

/** `limit`, `cursor` and the filters of the contract. */
export type AuditQuery = Partial<NonNullable<operations['listAuditLogs']['parameters']['query']>>;

export type AuditFilters = Omit<AuditQuery, 'limit' | 'cursor'>;

/**
 * Reading throws `role_required` where the reader is admin of no organization, or not of that which is asked for, and
 * `not_found` where it is none of theirs.
 */
export interface AuditLogs {
  /** The newest first. */
  list(reader: AuditReader, query: AuditQuery): Promise<Page<AuditEntry>>;
  find(reader: AuditReader, id: string): Promise<AuditEntry | null>;
  /** Records in each organization that its log is exported, and gives all entries up to that one, the oldest first, page by page. */
  export(
    reader: AuditReader,
    filters: AuditFilters,
    format: string,
  ): Promise<AsyncIterable<readonly AuditEntry[]>>;
  /** Holds the chain in itself, and against heads that were written down elsewhere. */
  verify(reader: AuditReader | 'installation', anchors: readonly WrittenAnchor[]): Promise<AuditVerification>;
  /** Those of the heads that were written down which the chain has to hold, the last one last. */
  counting(anchors: readonly WrittenAnchor[]): Promise<readonly Anchor[]>;
  /** What is wrong where the chain does not hold this entry; null where it does. */
  differs(anchor: Anchor): Promise<'truncated' | 'rewritten' | null>;
  /** The last entry, to be written down elsewhere. */
  head(): Promise<Anchor>;
  /** Forgets entries of days that end before, and records that; answers with how many there were. */
  prune(before: Date): Promise<number>;
  /** Records what has no transaction of its own. */
  record(actor: AuditActor, record: AuditRecord): Promise<void>;
}

export function auditLogs({ database, cursors }: StoreParts): AuditLogs {
  const { verify } = createVerification(database);
  const read = (reader: AuditReader, query: AuditQuery, direction: 'asc' | 'desc', upTo?: number) =>
    database.read(scopeOf(reader), async (sql) => {
      const { limit, cursor, ...filters } = query;
      const parts = partsOf(sql, reader, filters, upTo);
      const columns = ['created_at', 'sequence'];
      const listing = { name: 'audit_entries', reach: reader, filters, columns, direction, parts };
      const { data, next_cursor } = await readPage<AuditRow>(sql, cursors, listing, { limit, cursor });
      return { data: data.map(toEntry), next_cursor };
    });
  return {
    async list(reader, query) {
      requireAuditor(reader, query.organization_id);
      return read(reader, query, 'desc');
    },
    find: (reader, id) =>
      database.read(scopeOf(reader), async (sql) => {
        const row = await sql<AuditRow>('audit_entries').where({ id }).first();
        if (!row || !isWithin(reader, row)) return null;
        requireAuditor(reader, row.organization_id ?? undefined);
        return toEntry(row);
      }),
    async export(reader, filters, format) {
      requireAuditor(reader, filters.organization_id);
      await database.write(scopeOf(reader), async (sql) => {
        for (const id of organizationsOf(reader, filters))
          recordAudit(sql, reader, {
            action: 'audit.export',
            target: { type: 'organization', id },
            organizationId: id,
            after: { format, ...filters },
          });
      });
      const { sequence } = await database.read('installation', readHead);
      return pages((page) => read(reader, { ...filters, ...page }, 'asc', sequence));
    },
    async verify(reader, anchors) {
      if (reader !== 'installation') requireAuditor(reader, undefined);
      const { entries, base, head, broken } = await verify(anchors);
      const shown = broken?.row && (reader === 'installation' || isManaged(reader, broken.row));
      return {
        valid: broken === null,
        entries,
        pruned_through: base.sequence,
        head: broken ? null : head,
        first_broken: broken && {
          sequence: broken.sequence,
          entry_id: shown ? (broken.row?.id ?? null) : null,
          fault: broken.fault,
        },
      };
    },
    counting: (anchors) => database.read('installation', (sql) => countingAnchors(sql, anchors)),
    differs: (anchor) => database.read('installation', async (sql) => anchorFault(sql, anchor)),
    head: () => database.read('installation', readHead),
    prune: (before) => pruneAuditLog(database, before),
    record: (actor, record) => database.write('installation', async (sql) => recordAudit(sql, actor, record)),
  };
}

async function* pages(
  read: (page: { limit: number; cursor?: string }) => Promise<Page<AuditEntry>>,
): AsyncGenerator<readonly AuditEntry[]> {
  let cursor: string | null = null;
  do {
    const page: Page<AuditEntry> = await read({ limit: 100, ...(cursor !== null && { cursor }) });
    yield page.data;
    cursor = page.next_cursor;
  } while (cursor !== null);
}

function scopeOf(reader: AuditReader): Scope {
  return reader.operator ? 'installation' : reader;
}

/** Whether it concerns an organization of theirs, or they see everything. */
function isWithin(reader: AuditReader, { organization_id }: AuditRow): boolean {
  return reader.operator || (organization_id !== null && reader.organizationIds.includes(organization_id));
}

function isManaged(reader: AuditReader, { organization_id }: AuditRow): boolean {
  return (
    reader.operator || (organization_id !== null && wholeOrganizations(reader).includes(organization_id))
  );
}

function requireAuditor(reader: AuditReader, organizationId: string | undefined): void {
  if (reader.operator) return;
  if (organizationId !== undefined) {
    if (!reader.organizationIds.includes(organizationId)) throw notFound('organization');
    requireRole({ ...reader, needs: 'admin' }, { organization_id: organizationId, workspace_id: null });
  }
  if (wholeOrganizations(reader).length === 0)
    throw new Problem('role_required', 'This needs the role admin in an organization; you have it in none.');
}

/** Those that are read; null stands for all that there is. */
function organizationsOf(reader: AuditReader, { organization_id }: AuditFilters): readonly (string | null)[] {
  if (organization_id !== undefined) return [organization_id];
  return reader.operator ? [null] : wholeOrganizations(reader);
}

function partsOf(sql: Knex, reader: AuditReader, filters: AuditFilters, upTo: number | undefined) {
  return organizationsOf(reader, filters).map((organization_id) => {
    const part = sql<AuditRow>('audit_entries').where(organization_id === null ? {} : { organization_id });
    return filtered(part, filters, upTo);
  });
}

function filtered(
  query: Knex.QueryBuilder,
  { actor, action, target, outcome, ip, request_id, from, to }: AuditFilters,
  upTo: number | undefined,
): Knex.QueryBuilder {
  const equal = { actor_id: actor, action, target_id: target && plainText(target), outcome, ip, request_id };
  query.where(Object.fromEntries(Object.entries(equal).filter(([, value]) => value !== undefined)));
  if (from !== undefined) query.where('created_at', '>=', momentOf(from, 'from'));
  if (to !== undefined) query.where('created_at', '<', momentOf(to, 'to'));
  if (upTo !== undefined) query.where('sequence', '<=', upTo);
  return query;
}

/** A leap second is a moment too, which no clock here shows. */
function momentOf(text: string, name: string): number {
  const moment = Date.parse(text.replace(/:60(\.\d+)?/, ':59.999'));
  if (!Number.isNaN(moment)) return moment;
  const message = 'A date and time, as in 2026-11-21T08:00:00Z.';
  throw new Problem('invalid_request', `query/${name} is no time. ${message}`, {
    errors: [{ in: 'query', name, message, code: 'format' }],
  });
}

function toEntry(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    sequence: row.sequence,
    created_at: timestamp(row.created_at),
    organization_id: row.organization_id,
    actor: {
      type: row.actor_type,
      id: row.actor_id,
      credential_type: row.credential_type,
      credential_id: row.credential_id,
    },
    action: row.action,
    target: { type: row.target_type, id: row.target_id },
    outcome: row.outcome,
    reason: row.reason,
    ip: row.ip,
    request_id: row.request_id,
    before: row.before === null ? null : JSON.parse(row.before),
    after: row.after === null ? null : JSON.parse(row.after),
    prev_hash: row.prev_hash,
    hash: row.hash,
  };
}
