/** Which settings files of a workspace somebody trusts, and the record of every change of them. */
import type { Knex } from 'knex';
import { recordAudit } from './audit.ts';
import type { AuditValues } from './audit-values.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { lockWorkspace } from './workspaces.ts';

/** A file that is trusted, by its path below the folder of the workspace. */
export interface TrustedWorkspaceFile {
  readonly file: string;
  /** Hex SHA-256 of the bytes that are trusted. */
  readonly sha256: string;
  readonly review: string;
  readonly trustedAt: Date;
}

/** What is done to the files of a workspace. */
export interface WorkspaceFilesChange {
  readonly action: 'workspace_config.update' | 'workspace_trust.create' | 'workspace_trust.delete';
  /** All that is trusted from now on; as it was if absent. */
  readonly trusted?: readonly Omit<TrustedWorkspaceFile, 'trustedAt'>[];
  readonly before: AuditValues;
  readonly after: AuditValues;
}

/** An operator may be let in where they do not belong: what is trusted is a matter of the installation. */
export type TrustReach = Reach & { readonly operator?: boolean };

export interface WorkspaceTrustRecords {
  /** For the server's own work. */
  of(workspaceId: string): Promise<TrustedWorkspaceFile[]>;
  /**
   * Holds the workspace while its files are changed: of two changes the second one meets what the first has made.
   * Throws `not_found` or `role_required`.
   */
  change<Result>(
    reach: TrustReach,
    workspaceId: string,
    work: (
      trusted: readonly TrustedWorkspaceFile[],
    ) => Promise<{ readonly change: WorkspaceFilesChange | null; readonly result: Result }>,
  ): Promise<Result>;
}

interface TrustRow {
  organization_id: string;
  workspace_id: string;
  file: string;
  sha256: string;
  review: string;
  trusted_by: string;
  trusted_at: number;
}

export function workspaceTrustRepository({ database, clock }: StoreParts): WorkspaceTrustRecords {
  return {
    of: (workspaceId) => database.read('installation', (sql) => trustedFiles(sql, workspaceId)),
    change: (reach, workspaceId, work) =>
      database.write(reach.operator ? 'installation' : reach, async (sql) => {
        const { organization_id } = await lockFor(sql, reach, workspaceId);
        const before = await trustedFiles(sql, workspaceId);
        const { change, result } = await work(before);
        if (!change) return result;
        const owner = { organization_id, workspace_id: workspaceId };
        if (change.trusted)
          await replaceTrust(sql, reach, owner, before, change.trusted, clock.now().getTime());
        recordAudit(sql, reach, {
          action: change.action,
          target: { type: 'workspace', id: workspaceId },
          organizationId: organization_id,
          before: change.before,
          after: change.after,
        });
        return result;
      }),
  };
}

async function lockFor(sql: Knex.Transaction, reach: TrustReach, id: string) {
  if (!reach.operator) return lockWorkspace(sql, reach, id);
  const row = await sql('workspaces').where({ id }).forUpdate().first('organization_id');
  if (!row) throw notFound('workspace');
  return row;
}

async function trustedFiles(sql: Knex, workspaceId: string): Promise<TrustedWorkspaceFile[]> {
  const rows = await sql<TrustRow>('workspace_trust').where({ workspace_id: workspaceId });
  return rows.map(({ file, sha256, review, trusted_at }) => ({
    ...{ file, sha256, review },
    trustedAt: new Date(trusted_at),
  }));
}

/** What stays as it was keeps its time. */
async function replaceTrust(
  sql: Knex.Transaction,
  { userId }: Reach,
  owner: Pick<TrustRow, 'organization_id' | 'workspace_id'>,
  before: readonly TrustedWorkspaceFile[],
  trusted: NonNullable<WorkspaceFilesChange['trusted']>,
  now: number,
): Promise<void> {
  const same = (one: TrustedWorkspaceFile) =>
    trusted.some(({ file, sha256 }) => file === one.file && sha256 === one.sha256);
  const kept = before.filter(same).map(({ file }) => file);
  await sql('workspace_trust').where({ workspace_id: owner.workspace_id }).whereNotIn('file', kept).delete();
  const added = trusted.filter(({ file }) => !kept.includes(file));
  if (added.length === 0) return;
  await sql('workspace_trust').insert(
    added.map(({ file, sha256, review }) => ({
      ...owner,
      ...{ file, sha256, review },
      trusted_by: userId,
      trusted_at: now,
    })),
  );
}
