/** Databases of PostgreSQL with the two roles that operators are told to make. */
import { randomBytes } from 'node:crypto';
import knex, { type Knex } from 'knex';
import { inject, onTestFinished } from 'vitest';

interface Roles {
  /** As the role that serves, and as the one that owns. */
  readonly url: string;
  readonly migrationUrl: string;
  readonly service: string;
  /** As the superuser of the tests. */
  readonly admin: Knex;
}

/** A database as operators are told to make it, with both of its roles. */
export async function twoRoles(): Promise<Roles> {
  const server = inject('postgresUrl') ?? '';
  const name = `roles_${randomBytes(6).toString('hex')}`;
  const [owner, service] = [`${name}_owner`, `${name}_service`];
  const root = knex({ client: 'pg', connection: server, pool: { min: 0, max: 1 } });
  await root.raw(`create role ${owner} login`);
  await root.raw(`create role ${service} login`);
  await root.raw(`create database ${name} owner ${owner}`);
  const as = (user: string) => {
    const url = new URL(server);
    url.pathname = `/${name}`;
    url.username = user;
    return url.href;
  };
  const admin = knex({ client: 'pg', connection: as('postgres'), pool: { min: 0, max: 1 } });
  onTestFinished(async () => {
    await admin.destroy();
    await root.raw(`drop database ${name} with (force)`);
    await root.raw(`drop role ${owner}`);
    await root.raw(`drop role ${service}`);
    await root.destroy();
  });
  return { url: as(service), migrationUrl: as(owner), service, admin };
}
