import type { Knex } from 'knex';
import pg from 'pg';
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { writeInto } from '../test-passages.ts';
import { agentRepository } from './agents.ts';
import { apiKeyRepository } from './api-keys.ts';
import { auditLogs } from './audit-logs.ts';
import { chunkSearches } from './chunk-search.ts';
import { createCursors } from './cursor.ts';
import { databaseOf } from './database.ts';
import { deviceLoginRepository } from './device-logins.ts';
import { fileChangeRepository } from './file-changes.ts';
import { groupRepository } from './groups.ts';
import { invitationRepository } from './invitations.ts';
import { loginRepository } from './logins.ts';
import { memberRepository } from './members.ts';
import { memoryRepository } from './memories.ts';
import { messageRepository } from './messages.ts';
import { oidcRepository } from './oidc.ts';
import { organizationRepository } from './organizations.ts';
import type { StoreParts } from './parts.ts';
import { peopleRepository } from './people.ts';
import { permissionRepository } from './permissions.ts';
import { planRepository } from './plans.ts';
import { nameScope, openPostgres } from './postgres.ts';
import { serviceRole } from './postgres-roles.ts';
import { preferenceRepository } from './preferences.ts';
import { principalRepository } from './principals.ts';
import { promptRepository } from './prompts.ts';
import { queueRepository } from './queue.ts';
import { quotaRepository } from './quotas.ts';
import { runRepository } from './runs.ts';
import { sealedColumns, sealedValues } from './sealed-values.ts';
import { searchRepository } from './searches.ts';
import { sessionRepository } from './sessions.ts';
import type { Reach, Store } from './store.ts';
import { beginRun } from './test-runs.ts';
import { describeStore, newAccount, reachOfNobody, type TestEngine } from './test-stores.ts';
import { transcriptOf } from './transcript.ts';
import { usageRepository } from './usage.ts';
import { userRepository } from './users.ts';
import { workspaceEventRepository } from './workspace-events.ts';
import { workspaceMemberRepository } from './workspace-members.ts';
import { workspaceTrustRepository } from './workspace-trust.ts';
import { workspaceRepository } from './workspaces.ts';

const searchesOf = (parts: StoreParts) => searchRepository({ ...parts, log: createLog('silent') });

const theOperator = { ...reachOfNobody(), operator: true };

/** What is asked of one of something, and the column that its index begins with. */
const lists: readonly [
  noun: string,
  column: string,
  (parts: StoreParts, reach: Reach, sessionId: string) => Promise<unknown>,
][] = [
  ['runs', 'organization_id', (parts, reach) => runRepository(parts).list(reach, {})],
  ['runs', 'workspace_id', (parts, reach) => runRepository(parts).list(asMember(reach), {})],
  ['plans', 'workspace_id', (parts, reach) => planRepository(parts).list(asMember(reach), {})],
  ['plans', 'status', (parts, reach) => planRepository(parts).list(asMember(reach), { status: 'proposed' })],
  ['sessions', 'workspace_id', (parts, reach) => sessionRepository(parts).list(asMember(reach), {})],
  [
    'sessions',
    'tag',
    (parts, reach) => sessionRepository(parts).list(asMember(reach), { tag: 't', sort: 'updated_at' }),
  ],
  ['runs', 'session_id', (parts, reach, session_id) => runRepository(parts).list(reach, { session_id })],
  ['runs', 'status', (parts, reach) => runRepository(parts).list(reach, { status: 'running' })],
  ['runs', 'trigger', (parts, reach) => runRepository(parts).list(reach, { trigger: 'api' })],
  ['runs', 'session_id', (parts, reach, id) => runRepository(parts).activeOf(reach, id)],
  ['run at work', 'session_id', (parts, reach, id) => runRepository(parts).current(reach, id)],
  ['messages', 'session_id', (parts, reach, id) => messageRepository(parts).list(reach, id, {})],
  [
    'messages',
    'session_id',
    (parts, reach, id) => messageRepository(parts).list(reach, id, { sort: '-created_at' }),
  ],
  ['messages', 'role', (parts, reach, id) => messageRepository(parts).list(reach, id, { role: 'user' })],
  [
    'permission requests',
    'root_session_id',
    (parts, reach, id) => permissionRepository(parts).list(reach, id, {}),
  ],
  [
    'permission requests',
    'status',
    (parts, reach, id) => permissionRepository(parts).list(reach, id, { status: 'pending' }),
  ],
  ['plans', 'organization_id', (parts, reach) => planRepository(parts).list(reach, {})],
  ['plans', 'session_id', (parts, reach, session_id) => planRepository(parts).list(reach, { session_id })],
  ['plans', 'status', (parts, reach) => planRepository(parts).list(reach, { status: 'proposed' })],
  ['newest plan', 'session_id', (parts, _, id) => transcriptOf(parts).readPlan(id)],
  [
    'agent profiles',
    'organization_id',
    (parts) => agentRepository(parts).ofWorkspace({ workspaceId: 'ws', after: 'a', limit: 3 }),
  ],
  ...(['actor', 'action', 'target', 'ip', 'request_id'] as const).map(
    (filter): [string, string, (parts: StoreParts) => Promise<unknown>] => [
      `the whole audit log, by ${filter},`,
      { actor: 'actor_id', target: 'target_id', action: 'action', ip: 'ip', request_id: 'request_id' }[
        filter
      ],
      (parts) => auditLogs(parts).list(theOperator, { [filter]: 'x' }),
    ],
  ),
  [
    'audit log',
    'organization_id',
    (parts, reach) => auditLogs(parts).list({ ...reach, operator: false }, {}),
  ],
  ['prompt requests', 'root_session_id', (parts, reach, id) => promptRepository(parts).list(reach, id, {})],
  [
    'prompt requests',
    'status',
    (parts, reach, id) => promptRepository(parts).list(reach, id, { status: 'pending' }),
  ],
  ['workspaces', 'organization_id', (parts, reach) => workspaceRepository(parts).list(reach, {})],
  [
    'workspaces',
    'organization_id',
    (parts, reach) => workspaceRepository(parts).list(reach, { sort: 'created_at' }),
  ],
  [
    'members of a workspace',
    'workspace_id',
    async (parts, reach) => {
      const { id = '' } = (await workspaceRepository(parts).defaultOf(reach)) ?? {};
      await workspaceMemberRepository(parts).list(reach, id, {});
    },
  ],
  ['trusted files', 'workspace_id', (parts) => workspaceTrustRepository(parts).of('ws')],
  ['organizations', 'user_id', (parts, reach) => organizationRepository(parts).list(reach, {})],
  [
    'members',
    'organization_id',
    (parts, reach) => memberRepository(parts).list(reach, homeOf(reach), { limit: 1 }),
  ],
  [
    'members',
    'role',
    (parts, reach) => memberRepository(parts).list(reach, homeOf(reach), { role: 'owner' }),
  ],
  [
    'invitations',
    'organization_id',
    (parts, reach) => invitationRepository(parts).list(reach, homeOf(reach), {}),
  ],
  ['groups', 'organization_id', (parts, reach) => groupRepository(parts).list(reach, {})],
  ['API keys', 'user_id', (parts, reach) => apiKeyRepository(parts).list(reach, {})],
  ['preferences', 'user_id', (parts, reach) => preferenceRepository(parts).find(reach)],
  ['accounts', 'email_key', (parts) => userRepository(parts).findForLogin('ada@example.com')],
  ['messages to a model', 'session_id', (parts, _, id) => transcriptOf(parts).readMessages(id)],
  ['files seen', 'session_id', (parts, _, id) => transcriptOf(parts).readSeenFiles(id)],
  ['quotas', 'subject_id', (parts, reach) => quotaRepository(parts).effective(reach, 'key')],
];

interface Query {
  readonly sql: string;
  readonly bindings: readonly Knex.Value[];
}

// PostgreSQL plans by the size of its tables, which are small here.
describeStore('sqlite', 'Each query that grows with the data walks an index', (store, engine) => {
  /** The plans of what `ask` asks, all in one text. */
  const plansOf = async (ask: (parts: StoreParts) => Promise<unknown>): Promise<string> => {
    const sql = engine.sql();
    const asked: Query[] = [];
    const listen = (query: Query) => asked.push({ sql: query.sql, bindings: query.bindings });
    sql.on('query', listen);
    const database = databaseOf('sqlite', { reader: sql, writer: sql });
    await ask({ database, clock: engine.clock, cursors: createCursors('key') });
    sql.removeListener('query', listen);
    const plans: { detail: string }[] = [];
    for (const query of asked)
      plans.push(...(await sql.raw(`explain query plan ${query.sql}`, query.bindings)));
    return plans.map(({ detail }) => detail).join('\n');
  };
  const expectIndexed = (plans: string): void => {
    expect(plans).not.toMatch(/\bSCAN (?!\w+ USING (COVERING )?INDEX (runs_active|users_operators))/);
    expect(plans).not.toContain('TEMP B-TREE');
  };

  it('in the list of logins, and wherever somebody is let in', async () => {
    const reach = await newAccount(store());
    const now = engine.clock.now();
    const user = { userId: reach.userId, expiresAt: now };
    const code = { codeHash: 'c', browserHash: 'b' };
    const state = { stateHash: 's', browserHash: 'b', provider: 'corp' };
    const device = {
      deviceHash: 'd',
      userCode: 'BBBB-BBBB',
      clientName: null,
      address: '192.0.2.7',
      place: '192.0.2.7',
    };
    const asked: ((parts: StoreParts) => Promise<unknown>)[] = [
      (parts) => loginRepository(parts).list(reach, 'lgn_x', {}),
      (parts) => loginRepository(parts).touch('lgn_x', null, now),
      (parts) =>
        loginRepository(parts)
          .revoke(reach, 'lgn_x')
          .catch(() => undefined),
      (parts) => oidcRepository(parts).take(state, now),
      (parts) => oidcRepository(parts).userOf({ issuer: 'i', subject: 's' }, now),
      (parts) => oidcRepository(parts).issueCode({ ...code, ...user }),
      (parts) => oidcRepository(parts).takeCode(code, now),
      (parts) => oidcRepository(parts).prune(now),
      (parts) =>
        deviceLoginRepository(parts).open({ ...device, intervalSeconds: 5, expiresAt: now }, 20, now),
      (parts) => deviceLoginRepository(parts).find(reach, 'BBBB-BBBB', now),
      (parts) => deviceLoginRepository(parts).poll('d', now),
      (parts) => deviceLoginRepository(parts).prune(now),
    ];
    for (const ask of asked) expectIndexed(await plansOf(ask));
  });

  it('in the list of sessions, for each filter, each order and each page', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { tags: ['t'] });
    await store().sessions.create(reach, { tags: ['t'] });
    for (const _ of [1, 2]) await store().sessions.create(reach, {}, { parentId: session.id });
    const [status, workspace_id, tag] = ['idle' as const, session.workspace_id, 't'];
    for (const sort of ['created_at', '-created_at', 'updated_at', '-updated_at'] as const) {
      const parent_id = session.id;
      for (const filter of [
        {},
        { status },
        { workspace_id },
        { parent_id },
        { tag },
        { tag, status, workspace_id },
      ]) {
        const plans = await plansOf(async (parts) => {
          const sessions = sessionRepository(parts);
          const { next_cursor } = await sessions.list(reach, { sort, ...filter, limit: 1 });
          await sessions.list(reach, { sort, ...filter, cursor: next_cursor ?? '' });
        });
        expectIndexed(plans);
        const [column = 'organization_id'] = Object.keys(filter);
        const id = 'tag' in filter ? 'session_id' : 'id';
        const order = `(${sort.replace('-', '')},${id})${sort.startsWith('-') ? '<' : '>'}(?,?)`;
        const steps = plans.split('\n').filter((step) => step.includes(order));
        expect(steps.join(), plans).toContain(`${column}=?`);
      }
    }
  });

  it.each(lists)('for the %s of one %s', async (_noun, column, ask) => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const plans = await plansOf((parts) => ask(parts, reach, session.id));
    expectIndexed(plans);
    expect(plans).toMatch(new RegExp(`\\b${column}=\\?`));
  });

  it('for the members of a group', async () => {
    const reach = await newAccount(store());
    const group = { organization_id: homeOf(reach), name: 'Readers' };
    const { id } = (await store().groups.create(reach, group)).group;
    const plans = await plansOf((parts) => groupRepository(parts).listMembers(reach, id, {}));
    expectIndexed(plans);
    expect(plans).toMatch(/group_members USING .*\(group_id=\?\)/);
  });

  it('for the people of an organization, who alone are put in order, and for everybody, of whom a page alone is read', async () => {
    const reach = await newAccount(store());
    const ofOne = await plansOf((parts) => peopleRepository(parts).list(reach, { q: 'a' }));
    expect(ofOne.match(/SEARCH memberships USING .* \(organization_id=\?\)/g)).toHaveLength(2);
    expect(ofOne).not.toMatch(/\bSCAN (?!part)/);
    const operator = { ...reach, operator: true };
    const all = await plansOf((parts) => peopleRepository(parts).list(operator, {}));
    expect(all).toContain('SCAN users USING INDEX users_email_key_unique');
    const some = await plansOf((parts) => peopleRepository(parts).list(operator, { q: 'a' }));
    expect(some).toContain('users_email_key_unique (email_key>? AND email_key<?)');
    expect(some).toContain('users_name_key_email_key_index (name_key>? AND name_key<?)');
    const suspended = await plansOf((parts) =>
      peopleRepository(parts).list(operator, { status: 'suspended' }),
    );
    expect(suspended).toContain('users_status_email_key_index (status=?)');
    for (const plans of [some, suspended]) expect(plans).not.toMatch(/\bSCAN (?!part)/);
  });

  it('for what a run asks now', async () => {
    const reach = await newAccount(store());
    const { runId } = await beginRun(store(), reach);
    const plans = await plansOf(async (parts) => {
      await permissionRepository(parts).pending(reach, runId);
      await promptRepository(parts).pending(reach, runId);
    });
    expectIndexed(plans);
    expect(plans.match(/root_run_id=\?/g)).toHaveLength(2);
  });

  it('for the files that a session has changed, whose ends alone are read', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const plans = await plansOf((parts) => fileChangeRepository(parts).list(reach, session.id, { limit: 5 }));
    expect(plans).toContain('USING COVERING INDEX file_changes_by_path (session_id=? AND reverted=?)');
    expect(plans).not.toMatch(/\bSCAN (?!ends)/);
  });

  it('for the events of a run and for the children of a session, of which a page alone is put in order', async () => {
    const events = await plansOf((parts) => transcriptOf(parts).readEvents('run', 0, 10));
    expect(events).toMatch(/SEARCH run_events USING INDEX \w+ \(run_id=\? AND seq>\?\)/);
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const children = await plansOf((parts) => sessionRepository(parts).children(reach, session.id, {}));
    expect(children.match(/SEARCH sessions USING INDEX sessions_of_parent_by_created_at/g)).toHaveLength(2);
    for (const plans of [events, children]) expect(plans).not.toMatch(/\bSCAN (?!\(subquery|next|part)/);
  });

  it('for the queue of a session, with its prompts', async () => {
    const reach = await newAccount(store());
    const { sessionId } = await beginRun(store(), reach);
    await beginRun(store(), reach, { sessionId });
    const plans = await plansOf((parts) => queueRepository(parts).list(reach, sessionId, {}));
    expectIndexed(plans);
    expect(plans).toContain('runs_of_session_active (session_id=?');
    expect(plans).toMatch(/SEARCH messages USING INDEX \w+ \(run_id=\?\)/);
  });

  it('for the events of a workspace, and of one session of it', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const read = (filter: object) =>
      plansOf((parts) => workspaceEventRepository(parts).read(session.workspace_id, 0, filter, 5));
    const all = await read({ types: ['run_ended'] });
    expect(all).toContain('(workspace_id=? AND seq>? AND seq<?)');
    const some = await read({ sessionId: session.id });
    expect(some).toContain('(session_id=? AND seq>? AND seq<?)');
    for (const plans of [all, some]) expectIndexed(plans);
  });

  it('of those that hold only what is looked for', async () => {
    const abandoned = await plansOf((parts) => transcriptOf(parts).readLeases());
    expect(abandoned).toContain('runs_active');
    const place = { sessionId: 'ses', runNumber: 2 };
    const earlier = await plansOf((parts) => transcriptOf(parts).hasEarlierRun(place));
    expect(earlier).toContain('runs_of_session_active');
    const operators = await plansOf((parts) => userRepository(parts).hasOperator());
    expect(operators).toContain('users_operators');
    const prunable = await plansOf((parts) => runRepository(parts).pruneEvents(engine.clock.now()));
    expect(prunable).toContain('runs_prunable');
    expect(prunable).toContain('workspace_events_created_at_index');
    for (const plans of [abandoned, earlier, operators]) expectIndexed(plans);
  });

  it('for what somebody used, by whichever way they may see it, and for the quotas of a run at each step', async () => {
    const reach = await newAccount(store());
    const person = { ...asMember(reach), operator: false };
    const { workspaces } = reach;
    const inWorkspace = {
      ...person,
      workspaces: workspaces.map((one) => ({ ...one, role: 'admin' as const })),
    };
    for (const [who, index] of [
      [person, 'user_id=? AND day>? AND day<?'],
      [{ ...reach, operator: false }, 'organization_id=? AND day>? AND day<?'],
      [inWorkspace, 'workspace_id=? AND day>? AND day<?'],
      [{ ...reach, operator: true }, 'day>? AND day<?'],
    ] as const) {
      const plans = await plansOf((parts) => usageRepository(parts).sum(who, { group_by: 'model' }));
      expect(plans).toContain(index);
      expect(plans).not.toMatch(/\bSCAN /);
    }
    const admin = { ...reach, operator: false, needs: 'admin' as const };
    await store().quotas.put(admin, { type: 'user', id: reach.userId }, { tokens: { month: { hard: 5 } } });
    const run = await beginRun(store(), reach);
    const quotas = await plansOf((parts) => transcriptOf(parts).readQuotas(run.runId));
    expect(quotas).toMatch(
      /SEARCH usage_counters USING \w+ ?\w* ?\w* ?\w* ?\(subject_id=\? AND day>\? AND day<\?\)/,
    );
    expect(quotas).not.toMatch(/\bSCAN /);
  });

  it('for what is stored under a quota, whomever it is about', async () => {
    const reach = await newAccount(store());
    const group = { organization_id: homeOf(reach), name: 'Keepers' };
    const workspace = await store().workspaces.defaultOf(reach);
    const key = { name: 'Build', scopes: ['query'] as const, hash: 'hash', prefix: 'sk-3fK9aZ1q' };
    const subjects = [
      { type: 'user', id: reach.userId },
      { type: 'group', id: (await store().groups.create(reach, group)).group.id },
      { type: 'organization', id: homeOf(reach) },
      { type: 'workspace', id: workspace?.id ?? '' },
      { type: 'api_key', id: (await store().apiKeys.create(reach, key)).apiKey.id },
    ] as const;
    // What the operator sets for people and keys counts in every organization.
    for (const operator of [true, false])
      for (const subject of subjects) {
        const who = { ...reach, operator, needs: 'admin' as const };
        await store().quotas.put(who, subject, { storage: { hard: 1 } });
        const plans = await plansOf((parts) => quotaRepository(parts).find(who, subject));
        expect(plans).toContain('SEARCH documents USING COVERING INDEX');
        // The sums are members of one row, which is no table's.
        expect(plans, subject.type).not.toMatch(/\bSCAN (?!CONSTANT ROW)/);
      }
  });

  it('for each value that is sealed anew, and for the page behind it, by the key of its row', async () => {
    for (const { table, key } of sealedColumns) {
      const row = Object.fromEntries(key.map((name) => [name, 'none']));
      const value = { rowId: `${table}/none`, row, sealed: 'v1.none' };
      const plans = await plansOf(({ database }) => sealedValues(database).replace(value, 'v1.other'));
      expect(plans).toContain(`SEARCH ${table} USING `);
      expect(plans).not.toMatch(/\bSCAN /);
      const more = await plansOf(({ database }) => sealedValues(database).notUnder('another', value));
      expect(more).toContain(`SEARCH ${table} USING `);
      expect(more).not.toContain('TEMP B-TREE');
    }
  });

  it('for the credential of each request, one row of each table after the other', async () => {
    const now = engine.clock.now();
    for (const ask of [
      (parts: StoreParts) => principalRepository(parts).byLogin('lgn', now),
      (parts: StoreParts) => principalRepository(parts).byApiKeyHash('hash', now),
      (parts: StoreParts) => principalRepository(parts).byApiKey('key', now),
    ])
      expect(await plansOf(ask)).not.toMatch(/\bSCAN /);
  });
});

// As the store reads them: by themselves they would be text.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

// As the role that the service works as: row-level security changes plans. Of two indexes it may take either here.
describeStore('postgresql', 'Each list walks an index on PostgreSQL, too', (store, engine) => {
  it.each(lists)('for the %s of one %s', async (_noun, _column, ask) => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const sql = engine.sql();
    const asked = await queriesOf(sql, async () => {
      const database = databaseOf('postgresql', { reader: sql, writer: sql });
      await ask({ database, clock: engine.clock, cursors: createCursors('key') }, reach, session.id);
    });
    const plans = await sql.transaction(async (transaction) => {
      // It reads small tables in full, whatever their indexes, unless it is told not to.
      await transaction.raw('set local enable_seqscan = off');
      await transaction.raw(`set local role ${serviceRole}`);
      await nameScope(transaction, reach);
      const lines: string[] = [];
      for (const query of asked) {
        const explained = `explain ${query.sql.replaceAll(/\$\d+/g, '?')}`;
        const { rows } = await transaction.raw(explained, query.bindings);
        lines.push(...rows.map((row: object) => Object.values(row).join(' ')));
      }
      return lines.join('\n');
    });
    expect(plans).not.toContain('Seq Scan');
  });
});

/** What is found by words, asked in every way. */
const wordQueries: readonly [
  string,
  (parts: StoreParts, reach: Reach, sessionId: string) => Promise<unknown>,
][] = [
  ['everywhere', (parts, reach) => searchesOf(parts).find(reach, { query: 'hello wor' }, {})],
  [
    'in one session',
    (parts, reach, session_id) => searchesOf(parts).find(reach, { query: 'hello', session_id }, {}),
  ],
  [
    'in one workspace, in tool calls, page by page',
    async (parts, reach) => {
      const search = { query: 'new', in: ['title', 'tool'] as const, workspace_id: 'ws_none' };
      const { next_cursor } = await searchesOf(parts).find(reach, { query: 'new' }, { limit: 1 });
      const found = searchesOf(parts);
      await found.find(reach, { ...search, in: ['title', 'tool'] }, {});
      await found.find(reach, { query: 'new' }, { limit: 1, cursor: next_cursor ?? '' });
    },
  ],
  ['in the titles of a list', (parts, reach) => sessionRepository(parts).list(reach, { q: 'new ses' })],
];

describeStore('sqlite', 'A search walks the index of words on SQLite', (store, engine) => {
  it.each(wordQueries)('%s', async (where, ask) => {
    const plans = await plansFor(store(), engine, ask);
    // By words: `M` stands for a match, without which all rows are looked at.
    expect(plans).toMatch(/SCAN search_words VIRTUAL TABLE INDEX \d+:\S*M/);
    expect(plans.replaceAll(/SCAN search_words VIRTUAL TABLE INDEX \d+:\S*M/g, '')).not.toMatch(/\bSCAN /);
    if (!where.includes('list')) expect(plans).not.toContain('TEMP B-TREE');
  });
});

/** The same of memories and of passages, each with its table. */
const otherWords: readonly [
  table: string,
  where: string,
  (parts: StoreParts, reach: Reach, sessionId: string, store: Store) => Promise<unknown>,
][] = [
  [
    'memory_documents',
    'in a search of memories',
    async (parts, reach, _sessionId, store) => {
      const writer = { runId: null, apiKeyId: null };
      await store.memories.create(reach, { scope: 'user', content: 'Says hello.' }, writer);
      const search = { query: 'hello', top_k: 10 };
      expect((await memoryRepository(parts).search(reach, search, null)).data).toHaveLength(1);
    },
  ],
  [
    'chunk_words',
    'in a corpus',
    async (parts, reach, _sessionId, store) => {
      const { corpus } = await store.corpora.create(reach, { name: 'Library' });
      const document = { id: newId('document'), title: 'Greetings', passages: [{ text: 'hello' }] };
      await writeInto(parts.database, parts.clock, corpus.id, [document]);
      const found = await chunkSearches(parts).byWords(reach, { corpusIds: [corpus.id] }, 'hello', 10);
      expect(found).toHaveLength(1);
    },
  ],
];

// As the role that the service works as, and by what the database counts: row-level security changes plans.
describeStore('postgresql', 'A search walks the index of words on PostgreSQL', (store, engine) => {
  const searches = [
    ...wordQueries.map(([where, ask]) => ['search_documents', where, ask] as const),
    ...otherWords,
  ];
  it.each(searches)('%s: %s', async (table, _where, ask) => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { title: 'Hello world' });
    for (const _ of [1, 2]) await store().sessions.create(reach, {});
    const before = await scansOf(engine.sql(), table);
    // PostgreSQL reads small tables in full, whatever their indexes, unless it is told not to.
    const name = new URL(engine.url()).pathname.slice(1);
    await engine.sql().raw('alter database ?? set enable_seqscan = off', [name]);
    const database = openPostgres(engine.url(), createLog('silent'));
    try {
      await ask({ database, clock: engine.clock, cursors: createCursors('key') }, reach, session.id, store());
    } finally {
      // What a connection has counted is told when it ends.
      await database.close();
      await engine.sql().raw('alter database ?? reset enable_seqscan', [name]);
    }
    await expect
      .poll(async () => (await scansOf(engine.sql(), table)).ofWords)
      .toBeGreaterThan(before.ofWords);
    expect((await scansOf(engine.sql(), table)).ofAll).toBe(before.ofAll);
  });
});

/** How often the index of its words was walked so far, and how often all of a table. */
async function scansOf(
  sql: Knex,
  table: string,
): Promise<{ readonly ofWords: number; readonly ofAll: number }> {
  const { rows } = await sql.raw(
    `select tables.seq_scan as all_rows, indexes.idx_scan as words
     from pg_stat_user_tables tables join pg_stat_user_indexes indexes using (relid)
     where tables.relname = ? and indexes.indexrelname = ?`,
    [table, `${table}_words`],
  );
  return { ofWords: Number(rows[0].words), ofAll: Number(rows[0].all_rows) };
}

/** The plans of a query by someone with three sessions, all in one text. */
async function plansFor(
  store: Store,
  engine: TestEngine,
  ask: (parts: StoreParts, reach: Reach, sessionId: string) => Promise<unknown>,
): Promise<string> {
  const reach = await newAccount(store);
  const { session } = await store.sessions.create(reach, { title: 'Hello world' });
  for (const _ of [1, 2]) await store.sessions.create(reach, {});
  const sql = engine.sql();
  const asked = await queriesOf(sql, async () => {
    const database = databaseOf('sqlite', { reader: sql, writer: sql });
    await ask({ database, clock: engine.clock, cursors: createCursors('key') }, reach, session.id);
  });
  const plans: { detail: string }[] = [];
  for (const query of asked)
    plans.push(...(await sql.raw(`explain query plan ${query.sql}`, query.bindings)));
  return plans.map(({ detail }) => detail).join('\n');
}

/** What is asked of the database while something is done. */
async function queriesOf(sql: Knex, act: () => Promise<void>): Promise<readonly Query[]> {
  const asked: Query[] = [];
  const listen = ({ sql, bindings }: Query) => asked.push({ sql, bindings });
  sql.on('query', listen);
  try {
    await act();
  } finally {
    sql.removeListener('query', listen);
  }
  return asked;
}

/** The same person without a role that reaches the whole organization. */
function asMember(reach: Reach): Reach {
  const memberships = reach.memberships.map(({ organizationId }) => ({
    organizationId,
    role: 'member' as const,
  }));
  return { ...reach, memberships };
}

function homeOf({ organizationIds }: Reach): string {
  return organizationIds[0] ?? '';
}
