/** The audit log that a restore takes the place of: what is told of it in the copy, and what becomes of its heads. */
import type { Knex } from 'knex';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { readAnchors, type WrittenAnchor, writeRestored } from './audit-anchors.ts';
import type { Anchor, AuditHead, AuditRow } from './audit-chain.ts';
import { entryOfRestore } from './audit-restore.ts';
import { differingAnchor, readHead } from './audit-verification.ts';

export interface ReplacedLog {
  /** Null where nothing is known of it. */
  readonly head: Anchor | null;
  /** Whether it is the one whose heads were written down. */
  readonly holds: boolean;
}

/** Looks at the database that is replaced. */
type Look = (work: (sql: Knex) => Promise<ReplacedLog>) => Promise<ReplacedLog>;

interface Means {
  readonly clock: Clock;
  readonly log: Log;
  /** The file of the heads that were written down. */
  readonly anchors: string;
}

/** The entry that the copy gets behind its last one; `look` is null where there is no database to be replaced. */
export async function recordedRestore(
  copied: AuditHead,
  look: Look | null,
  { clock, log, anchors: file }: Means,
): Promise<AuditRow> {
  const anchors = await readAnchors(file);
  const replaced = look ? await look((sql) => replacedIn(sql, anchors)) : goneWith(anchors);
  const entry = entryOfRestore(copied, replaced.head, clock.now().getTime());
  // A log that was cut off before stays so: a restore must not be what hides it.
  if (!replaced.holds) log.warn({ file }, stillDiffers);
  else if (anchors.length > 0) await writeRestored(file, entry, clock.now());
  return entry;
}

const stillDiffers =
  'the audit log that the copy takes the place of was not the one whose heads were written down: those go on counting, until somebody has looked into it and moves the file away';

async function replacedIn(sql: Knex, anchors: readonly WrittenAnchor[]): Promise<ReplacedLog> {
  if (!(await sql.schema.hasTable('audit_head'))) return goneWith(anchors);
  const head = await readHead(sql);
  return { head, holds: (await differingAnchor(sql, anchors, head)) === null };
}

/** Where the database is gone, what was written down is all that is known. */
function goneWith(anchors: readonly WrittenAnchor[]): ReplacedLog {
  const last = anchors.findLast(({ restored }) => !restored);
  return { head: last ?? null, holds: true };
}
