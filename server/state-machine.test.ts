/** Drives the server through random sequences of what clients and fate do, and holds it to a model of its runs. */
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, inject, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Session } from './contract/api.ts';
import { expectSound, longLease, startCrashing } from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import {
  clientOfAll,
  expectEffects,
  expectMessages,
  expectRequests,
  expectRun,
  expectSettled,
  mustBeDriven,
  type Real,
} from './state-machine-checks.ts';
import { activeRuns, type Model, newSession, runsOf, script, settle } from './state-machine-model.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { sequences } from './test-sequences.ts';

/** Few in every run of the tests; `make soak` asks for more, and repeats one by what it printed. */
const many = Number(process.env.PROPERTY_RUNS ?? 3);
/** Of these, at random; as many again are woven in, so that nothing is left out. */
const commands = Number(process.env.PROPERTY_COMMANDS ?? 8);
const seed = Number(process.env.PROPERTY_SEED ?? Math.trunc(Math.random() * 2 ** 31));
const path = process.env.PROPERTY_PATH ?? '';
const shrinks = process.env.PROPERTY_SHRINK === 'true';

/** Two servers share the work, so that each may have to go on where the other has ended. */
for (const [database, servers, share] of [
  ['SQLite', 1, 1],
  ['SQLite', 2, 1 / 3],
  ['PostgreSQL', 2, 1 / 3],
] as const) {
  const runs = Math.ceil(many * share);
  test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null)(
    `${runs} random sequences of queries, answers, interrupts, resumptions, forks, reverts, kills and stops go as the model says, with ${servers} on ${database}`,
    async () => {
      console.info(
        `state machine: PROPERTY_SEED=${seed} PROPERTY_RUNS=${many} PROPERTY_COMMANDS=${commands} PROPERTY_PATH=${path}`,
      );
      const upstream = await startUpstream();
      try {
        const real = await startReal(upstream, database, servers);
        await fc.assert(
          fc.asyncProperty(sequences(commands), async (sequence) => {
            await upstream.script(script);
            real.streams.clear();
            real.seen.clear();
            const model = await newModel(real);
            await fc.asyncModelRun(() => ({ model, real }), sequence);
            await finish(model, real);
          }),
          { seed, path, numRuns: runs, endOnFailure: !shrinks, verbose: 1 },
        );
        expectDriven(real);
      } finally {
        await upstream.stop();
      }
    },
    60_000 + runs * (commands + 12) * servers * 5_000 * (shrinks ? 20 : 1),
  );
}

async function startReal(
  upstream: Real['upstream'],
  database: 'SQLite' | 'PostgreSQL',
  count: number,
): Promise<Real> {
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const at = database === 'SQLite' ? onSqlite(folder) : await onPostgres(folder);
  const variables = { ...at.variables, ...(count > 1 && longLease) };
  const first = await startCrashing(folder, variables);
  const servers = [first];
  while (servers.length < count) servers.push(await startCrashing(folder, variables));
  return {
    ...{
      upstream,
      folder,
      ...at,
      variables,
      key: first.key,
      servers,
      client: clientOfAll(servers, first.key),
    },
    ...{ restarts: 0, workspace: '', streams: new Map(), seen: new Map(), driven: new Map() },
  };
}

/** A server that is told to stop hands over what is at work at once. */
const drain = { SERVICE_DRAIN_SECONDS: '0' };

type Place = Pick<Real, 'database' | 'variables'>;

function onSqlite(folder: string): Place {
  const filename = join(folder, 'data/service.db');
  return {
    variables: drain,
    database: { client: 'sqlite3', connection: { filename }, useNullAsDefault: true },
  };
}

async function onPostgres(folder: string): Promise<Place> {
  const url = await newDatabase();
  const variables = { ...drain, DATABASE_URL: url, SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
  return { variables, database: { client: 'pg', connection: url, pool: { min: 0, max: 1 } } };
}

let named = 0;

async function newModel(real: Real): Promise<Model> {
  const { status, body } = await real.client.post<Session>('/api/v1/sessions', { title: 'Driven' });
  expect(status).toBe(201);
  real.workspace = join(real.folder, 'data/workspaces', body.workspace_id);
  // Sequences share the workspace, and so must not share names.
  named += 1000;
  return {
    sessions: [newSession(body.id)],
    prompts: named,
  };
}

/** A test that drives nothing would hold whatever the server does. */
function expectDriven({ driven }: Real): void {
  console.info(
    `state machine: driven ${[...driven].map(([what, times]) => `${times} × ${what}`).join(', ')}`,
  );
  // A path leads to a sequence that may have been made smaller.
  if (path === '') expect([...driven.keys()].sort()).toEqual([...mustBeDriven].sort());
}

/** Whatever is still at work is stopped; then all of it can be looked at. */
async function finish(model: Model, real: Real): Promise<void> {
  for (const session of model.sessions) {
    if (activeRuns(session).length === 0) continue;
    expect((await real.client.send('POST', `/api/v1/sessions/${session.id}/interrupt`)).status).toBe(202);
    for (const run of activeRuns(session)) run.status = 'interrupted';
    settle(session);
  }
  await expectSettled(real, model);
  for (const session of model.sessions) {
    await expectMessages(real, session);
    for (const run of runsOf(session)) await expectRun(real, session, run);
  }
  await expectEffects(real, model);
  await expectRequests(real, model);
  if (real.database.client === 'sqlite3') await expectSound(join(real.folder, 'data/service.db'));
}
