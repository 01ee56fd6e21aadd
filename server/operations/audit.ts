/** The audit log: read, exported, and held against its chain. */
import type { AuditEntry } from '../contract/api.ts';
import type { Handler } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listAuditLogs: Handler<'listAuditLogs'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.auditLogs.list(principal, query),
});

export const getAuditLog: Handler<'getAuditLog'> = async ({ principal, path }, { store }) => {
  const entry = await store.auditLogs.find(principal, path.entry_id);
  if (!entry) throw new Problem('not_found', 'No entry of the audit log has this id, or it is not yours.');
  return { status: 200, body: entry };
};

export const exportAuditLogs: Handler<'exportAuditLogs'> = async ({ principal, query }, { store }) => {
  const { format, ...filters } = query;
  const pages = await store.auditLogs.export(principal, filters, format);
  const headers = { 'Content-Disposition': `attachment; filename="audit.${format}"` };
  return format === 'csv'
    ? { status: 200, type: 'text/csv', headers, body: textOf(pages, csvLine, `${columns.join(',')}\r\n`) }
    : { status: 200, type: 'application/x-ndjson', headers, body: textOf(pages, jsonLine) };
};

export const verifyAuditChain: Handler<'verifyAuditChain'> = async (
  { principal, query },
  { store, auditAnchors },
) => {
  const [sequence, hash] = query.anchor?.split(':') ?? [];
  const given = sequence && hash ? [{ sequence: Number(sequence), hash }] : [];
  const anchors = [...(await auditAnchors()), ...given];
  return { status: 200, body: await store.auditLogs.verify(principal, anchors) };
};

async function* textOf(
  pages: AsyncIterable<readonly AuditEntry[]>,
  line: (entry: AuditEntry) => string,
  first = '',
): AsyncGenerator<string> {
  if (first !== '') yield first;
  for await (const page of pages) if (page.length > 0) yield page.map(line).join('');
}

function jsonLine(entry: AuditEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

const columns = [
  ...['sequence', 'id', 'created_at', 'organization_id', 'actor_type', 'actor_id', 'credential_type'],
  ...['credential_id', 'action', 'target_type', 'target_id', 'outcome', 'reason', 'ip', 'request_id'],
  ...['before', 'after', 'prev_hash', 'hash'],
];

function csvLine(entry: AuditEntry): string {
  const { actor, target, before, after } = entry;
  const cells: Readonly<Record<string, unknown>> = {
    ...entry,
    actor_type: actor.type,
    actor_id: actor.id,
    credential_type: actor.credential_type,
    credential_id: actor.credential_id,
    target_type: target.type,
    target_id: target.id,
    before: before && JSON.stringify(before),
    after: after && JSON.stringify(after),
  };
  return `${columns.map((column) => csvCell(cells[column])).join(',')}\r\n`;
}

/** Spreadsheets take what begins so for a formula, and carry it out; blanks before it do not keep them from it. */
const formula = /^\s*[=+\-@|%\t\r]/;

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = String(value);
  const safe = formula.test(text) ? `'${text}` : text;
  return /[",\r\n';]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
