/** getSession with more and more of the server around it: what a layer costs is the difference to the one before. */
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import express, { type Express } from 'express';
import knex from 'knex';
import { createApp, createMetrics } from '../app.ts';
import { openServices } from '../assembly/assembly.ts';
import type { Session } from '../contract/api.ts';
import { createLog } from '../log.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import type { Services } from '../services.ts';

/** The last one beside them is the server as it is: `main.ts`. */
const layers = ['bare', 'contract', 'authentication', 'access', 'limits'] as const;
type Layer = (typeof layers)[number];

const [layer = '', ...args] = process.argv.slice(2);
if (!isLayer(layer)) throw new Error(`Name one of ${layers.join(', ')}`);
const { settings } = readServerSettings(args, process.env);
const database = join(settings.dataDirectory, 'service.db');
const sql = knex({ client: 'sqlite3', connection: { filename: database }, useNullAsDefault: true });
const app = layer === 'bare' ? bareApp() : await appWith(layer);
const server = app.listen(0, '127.0.0.1', () => {
  // A server that listens on a port has an address of this kind.
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});

function isLayer(name: string): name is Layer {
  return (layers as readonly string[]).includes(name);
}

/** What anybody writes in an afternoon: no contract, no credential, no log. */
function bareApp(): Express {
  const bare = express();
  bare.get('/api/v1/sessions/:id', async (request, response) => {
    const found = await findSession(request.params.id);
    if (!found) return void response.status(404).end();
    response.setHeader('ETag', found.etag);
    response.json(found.session);
  });
  return bare;
}

async function appWith(outermost: Exclude<Layer, 'bare'>): Promise<Express> {
  const services = await openServices({
    settings,
    environment: {},
    metrics: createMetrics(),
    log: createLog('info'),
    draining: () => false,
    listensAt: () => '',
  });
  const has = (one: Layer) => layers.indexOf(one) <= layers.indexOf(outermost);
  const { identity, store } = services;
  // Asked once, for all: whoever calls is this one.
  let known: ReturnType<typeof identity.authenticate> | undefined;
  const layered: Services = {
    ...services,
    settings: has('limits') ? settings : { ...settings, rateLimits: {} },
    ...(!has('authentication') && {
      identity: {
        ...identity,
        authenticate: (credential: string) => {
          known ??= identity.authenticate(credential);
          return known;
        },
      },
    }),
    ...(!has('access') && {
      store: {
        ...store,
        sessions: { ...store.sessions, find: (_: unknown, id: string) => findSession(id) },
      },
    }),
  };
  return createApp(layered);
}

/** By its id alone, whoever asks; as the contract shows it. */
async function findSession(id: string): Promise<{ readonly session: Session; readonly etag: string } | null> {
  const row = await sql('sessions').where({ id }).first();
  if (!row) return null;
  const session = {
    id: row.id,
    workspace_id: row.workspace_id,
    parent_id: row.parent_id,
    parent_run_id: row.parent_run_id,
    title: row.title,
    status: row.status,
    agent_slug: row.agent_slug,
    model: row.model,
    system_prompt: row.system_prompt,
    permission_rules: JSON.parse(row.permission_rules),
    tags: JSON.parse(row.tags),
    metadata: JSON.parse(row.metadata),
    archived: Boolean(row.archived),
    pinned: Boolean(row.pinned),
    usage: {
      input_tokens: row.input_tokens,
      output_tokens: row.output_tokens,
      cached_input_tokens: row.cached_input_tokens,
    },
    cost: row.unpriced ? null : row.cost_nanodollars / 1e9,
    context: { used: row.context_used, window: row.context_window },
    summary_message_id: row.summary_message_id,
    message_count: row.message_count,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
  };
  return { session, etag: `"${row.revision}"` };
}

process.on('SIGTERM', () => process.exit(0));
