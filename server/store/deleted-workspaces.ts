/** Workspaces that are gone while their folders may still be there. */
import type { Knex } from 'knex';
import type { StoreParts } from './parts.ts';

export interface DeletedWorkspaces {
  /** The ids of those whose folders are to be removed, in their order, a thousand at a time: of those behind one of them. */
  list(after?: string): Promise<readonly string[]>;
  /** The folder is gone. */
  forget(id: string): Promise<void>;
}

const mostListed = 1000;

export function deletedWorkspaceRepository({ database }: StoreParts): DeletedWorkspaces {
  return {
    list: (after = '') =>
      database.read('installation', (sql) =>
        sql('deleted_workspaces').where('id', '>', after).orderBy('id').limit(mostListed).pluck('id'),
      ),
    forget: (id) =>
      database.write('installation', async (sql) => {
        await sql('deleted_workspaces').where({ id }).delete();
      }),
  };
}

/** To be called before they are deleted: the process may end before their folders are gone. Paths are their owners'. */
export async function noteDeletedWorkspaces(
  sql: Knex.Transaction,
  which: { readonly id: string } | { readonly organization_id: string },
): Promise<void> {
  const columns = ['id', 'organization_id'];
  await sql.into(sql.raw('?? (??, ??)', ['deleted_workspaces', ...columns])).insert(
    sql('workspaces')
      .where({ ...which, path: null })
      .select(columns),
  );
}
