/** Who does what on PostgreSQL: one role owns the tables and changes them, another has no rights but to their rows. */
import type { Knex } from 'knex';
import { searchedByWords } from './migrations/0035-word-searches.ts';

/** What the service works as where the role that connects owns the tables. */
export const serviceRole = 'service_app';

/** Makes that role where it is missing, and gives it the rows of every table that there is by now. */
export async function prepareServiceRole(sql: Knex.Transaction): Promise<void> {
  // Roles belong to all databases of a server, of which two may be prepared at once.
  await sql.raw(
    `do $$ begin
       if not exists (select from pg_roles where rolname = '${serviceRole}') then
         create role ${serviceRole} nologin;
       end if;
     exception when duplicate_object or unique_violation then null;
     end $$`,
  );
  // From version 16 on whoever makes a role is its member, and may work as it only once the role was granted to them.
  const { rows } = await sql.raw(
    `select pg_has_role(current_user, '${serviceRole}',
       case when current_setting('server_version_num')::int < 160000 then 'member' else 'set' end) as allowed`,
  );
  if (!rows[0].allowed) await sql.raw(`grant ${serviceRole} to current_user`);
  await grantRows(sql, serviceRole);
}

/** Gives a role the rows of every table that there is by now, and takes from it what nobody may do. */
export async function grantRows(sql: Knex.Transaction, role: string): Promise<void> {
  const give = (rights: string) => sql.raw(`grant ${rights} to ??`, [role]);
  await give('usage on schema public');
  await give('select, insert, update, delete on all tables in schema public');
  await give('usage, select on all sequences in schema public');
  for (const table of searchedByWords) {
    // They work with the rights of the owner; a restored database has forgotten for whom.
    await sql.raw(`revoke execute on function ${table}_with(tsquery, bigint) from public`);
    await give(`execute on function ${table}_with(tsquery, bigint)`);
  }
  // What was recorded stays recorded, whoever gets hold of the service.
  await sql.raw('revoke update, truncate on audit_entries from ??', [role]);
  await sql.raw('revoke insert, delete, truncate on audit_head, audit_base from ??', [role]);
}

/** A role that connects. */
export interface ConnectedRole {
  readonly name: string;
  /** Whether row-level security does not hold for it, whatever the policies say. */
  readonly passesPolicies: boolean;
  /** Whether there are tables of the service, and they are its own or those of a role that it belongs to. */
  readonly owns: boolean;
  readonly hasTables: boolean;
  /** The number of its database in the server. */
  readonly database: number;
}

export async function readRole(sql: Knex): Promise<ConnectedRole> {
  const { rows } = await sql.raw(
    `select rolname as name, rolsuper or rolbypassrls as passes, tables.owner is not null as has_tables,
       coalesce(pg_has_role(rolname, tables.owner, 'member'), false) as owns,
       (select oid from pg_database where datname = current_database()) as database
     from pg_roles left join
       (select relowner as owner from pg_class where oid = to_regclass('public.schema_versions')) as tables on true
     where rolname = current_user`,
  );
  const [{ name, passes, owns, has_tables, database }] = rows;
  return { name, passesPolicies: passes, owns, hasTables: has_tables, database };
}

/** Refuses a role that could change the tables, or see past the policies: then two roles are no better than one. */
export function requireRestricted({ name, passesPolicies, owns }: ConnectedRole): void {
  if (!passesPolicies && !owns) return;
  const reason = passesPolicies ? 'passes over row-level security' : 'owns the tables';
  throw new Error(
    `The role ${name} of DATABASE_URL ${reason}, so that DATABASE_MIGRATION_URL protects nothing: let DATABASE_URL name ` +
      'a role that is neither superuser nor BYPASSRLS, and no member of the one that owns the tables.',
  );
}
