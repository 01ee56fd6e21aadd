/** The audit log: entries that are only ever added, each bound to the one before it; where it begins, and its head. */
import type { Knex } from 'knex';
import { inScope } from './0006-tenancy.ts';

export const audit = {
  name: 'audit',
  async up(sql: Knex.Transaction): Promise<void> {
    const isPostgres = sql.client.config.client === 'pg';
    await createEntries(sql);
    await createHead(sql);
    await createBase(sql);
    if (isPostgres) await guardEntries(sql);
    await (isPostgres ? forbidChangesOnPostgres(sql) : forbidChangesOnSqlite(sql));
  },
};

/** No foreign keys: what somebody did stays known after they, their organization or their target are gone. */
async function createEntries(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('audit_entries', (table) => {
    table.bigInteger('sequence').primary();
    table.text('id').notNullable().unique();
    // Never before that of the entry before it: the order of the chain is the order of time.
    table.bigInteger('created_at').notNullable();
    // Null where it concerns the installation, or nobody who is known.
    table.text('organization_id');
    table.text('actor_type').notNullable();
    table.text('actor_id');
    table.text('credential_type');
    table.text('credential_id');
    table.text('action').notNullable();
    table.text('target_type').notNullable();
    table.text('target_id');
    table.text('outcome').notNullable();
    // The code of the problem with which it was refused.
    table.text('reason');
    table.text('ip');
    table.text('request_id');
    table.text('before');
    table.text('after');
    table.text('prev_hash').notNullable();
    table.text('hash').notNullable();
    for (const column of ['actor_id', 'action', 'target_id', 'ip', 'request_id'])
      table.index([column, 'created_at', 'sequence']);
    table.index(['organization_id', 'created_at', 'sequence']);
    table.index(['created_at', 'sequence']);
    table.check("actor_type in ('user', 'anonymous', 'system')");
    table.check("outcome in ('success', 'refused')");
  });
}

/** One row: the last entry. Whoever adds to the chain holds it. */
async function createHead(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('audit_head', (table) => {
    table.integer('id').primary();
    table.bigInteger('sequence').notNullable();
    table.bigInteger('created_at').notNullable();
    table.text('hash').notNullable();
  });
  await sql('audit_head').insert({ id: 1, sequence: 0, created_at: 0, hash: '0'.repeat(64) });
}

/** One row: the last entry that is no longer kept. Until the first one goes it is none. */
async function createBase(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('audit_base', (table) => {
    table.integer('id').primary();
    table.bigInteger('sequence').notNullable();
    table.text('hash').notNullable();
  });
  await sql('audit_base').insert({ id: 1, sequence: 0, hash: '0'.repeat(64) });
}

/** Whoever may write at all may record what concerns no organization, and reads it only as the server itself. */
async function guardEntries(sql: Knex.Transaction): Promise<void> {
  const within = inScope('organization_id');
  await sql.raw('alter table audit_entries enable row level security');
  await sql.raw('alter table audit_entries force row level security');
  await sql.raw(`create policy seen on audit_entries for select using (${within})`);
  await sql.raw(
    `create policy added on audit_entries for insert with check (${within} or organization_id is null)`,
  );
  // Which rows may go, and that no others do, the triggers say: a policy would only hide the others in silence.
  await sql.raw('create policy gone on audit_entries for delete using (true)');
}

const refusal = 'the audit log is append-only';

/**
 * Nobody forgets what happened lately, whatever the settings are and whoever has got hold of the service: by the clock
 * of the database, which is not that of the service.
 */
const youngestForgettableDays = 30;
const youngestMs = youngestForgettableDays * 24 * 3_600_000;

async function forbidChangesOnPostgres(sql: Knex.Transaction): Promise<void> {
  await sql.raw(
    `create function refuse_audit_change() returns trigger language plpgsql as
     $$ begin raise exception '${refusal}'; end $$`,
  );
  const refuse = 'execute function refuse_audit_change()';
  await sql.raw(
    `create trigger append_only before update or truncate on audit_entries for each statement ${refuse}`,
  );
  await sql.raw(
    `create function refuse_late_audit_entries() returns trigger language plpgsql as $$ begin
       if exists (select from gone where sequence > (select sequence from audit_base)) then
         raise exception '${refusal}';
       end if;
       return null;
     end $$`,
  );
  await sql.raw(
    `create trigger kept after delete on audit_entries referencing old table as gone
     for each statement execute function refuse_late_audit_entries()`,
  );
  await sql.raw(
    `create function keep_young_audit_entries() returns trigger language plpgsql as $$ begin
       if new.id = old.id and new.sequence > old.sequence and exists (
         select from audit_entries where sequence = new.sequence and hash = new.hash
           and created_at < extract(epoch from clock_timestamp()) * 1000 - ${youngestMs}
       ) then return new; end if;
       raise exception '${refusal}';
     end $$`,
  );
  await sql.raw(
    'create trigger moves_on before update on audit_base for each row execute function keep_young_audit_entries()',
  );
  await sql.raw(`create trigger stays before delete or truncate on audit_base for each statement ${refuse}`);
  await sql.raw(`create trigger stays before delete or truncate on audit_head for each statement ${refuse}`);
  await sql.raw(
    `create trigger moves_on before update on audit_head for each row
     when (new.id <> old.id or new.sequence <> old.sequence + 1) ${refuse}`,
  );
}

async function forbidChangesOnSqlite(sql: Knex.Transaction): Promise<void> {
  const refuse = `begin select raise(abort, '${refusal}'); end`;
  await sql.raw(`create trigger audit_entries_unchanged before update on audit_entries ${refuse}`);
  await sql.raw(
    `create trigger audit_entries_kept before delete on audit_entries
     when old.sequence > (select sequence from audit_base) ${refuse}`,
  );
  await sql.raw(
    `create trigger audit_base_moves_on before update on audit_base
     when new.id <> old.id or new.sequence <= old.sequence or not exists (
       select 1 from audit_entries where sequence = new.sequence and hash = new.hash
         and created_at < cast(strftime('%s', 'now') as integer) * 1000 - ${youngestMs}
     ) ${refuse}`,
  );
  await sql.raw(`create trigger audit_base_kept before delete on audit_base ${refuse}`);
  await sql.raw(`create trigger audit_head_kept before delete on audit_head ${refuse}`);
  await sql.raw(
    `create trigger audit_head_moves_on before update on audit_head
     when new.id <> old.id or new.sequence <> old.sequence + 1 ${refuse}`,
  );
}
