/** Fills an empty database with what the contract's examples show, ids included, so that tests can hold them true. */
import type { Knex } from 'knex';
import type { Catalog } from '../contract/api.ts';
import type { Database } from './database.ts';
import { at, type ExampleSeed, type Place } from './example-seed.ts';
import { meter } from './meter.ts';

import { seedAccount, seedAuditEntry, seedOrganization, seedWorkspace } from './seed-example-accounts.ts';
import { seedJobs } from './seed-example-jobs.ts';
import {
  seedCorpus,
  seedMemory,
  seedSkill,
  seedSkillRepository,
  seedStoredFile,
} from './seed-example-knowledge.ts';
import { question, seedFile, seedMessage, seedRun, seedSession } from './seed-example-sessions.ts';

/** Writes everything in one transaction. */
export async function seedExamples(database: Database, seed: ExampleSeed): Promise<void> {
  const [membership] = seed.me.memberships;
  if (!membership) throw new Error('the example of the account has no membership');
  const organizationId = membership.organization_id;
  const place = { organization_id: organizationId, workspace_id: membership.default_workspace_id };
  await database.write('installation', async (sql) => {
    await seedAccount(sql, seed);
    await seedAuditEntry(sql, seed.auditEntry);
    await seedOrganization(sql, seed);
    await seedWorkspace(sql, seed.workspace);
    for (const session of seed.sessions) await seedSession(sql, session, organizationId, seed.me.id);
    for (const run of seed.runs) await seedRun(sql, run, place, seed.me.id);
    for (const [position, message] of seed.messages.entries())
      await seedMessage(sql, message, place, position);
    for (const [path, text] of Object.entries(seed.files)) await seedFile(sql, seed, path, text);
    for (const request of seed.permissions)
      await sql('permission_requests').insert({
        ...question(request, organizationId),
        decision: request.decision,
      });
    for (const request of seed.prompts) {
      const answers = request.answers ? JSON.stringify(request.answers) : null;
      await sql('prompt_requests').insert({ ...question(request, organizationId), answers });
    }
    for (const plan of seed.plans) {
      const { id, version, run_id, title, content } = plan;
      const owner = { organization_id: organizationId };
      const steps = JSON.stringify(plan.steps);
      await sql('plans').insert({ ...plan, ...place, steps, revision: 1, created_at: at, updated_at: at });
      await sql('plan_versions').insert({
        ...owner,
        plan_id: id,
        version,
        run_id,
        title,
        content,
        created_at: at,
      });
    }
    await seedCatalog(sql, seed.catalog);
    await seedStoredFile(sql, seed, place);
    await seedCorpus(sql, seed, organizationId);
    await seedMemory(sql, seed.memory);
    await seedJobs(sql, seed);
    await seedSkill(sql, seed.skill);
    await seedSkillRepository(sql, seed);
    await seedQuota(sql, seed, place);
    await seedProviderSetting(sql, seed);
    await seedMcpServer(sql, seed);
    for (const { source: _source, tools, ...agent } of seed.agents)
      await sql('agents').insert({
        ...agent,
        organization_id: organizationId,
        tools: tools && JSON.stringify(tools),
        created_by: seed.me.id,
        revision: 1,
        created_at: at,
        updated_at: at,
      });
  });
}

export async function seedProviderSetting(
  sql: Knex.Transaction,
  { providerSetting, me }: Pick<ExampleSeed, 'providerSetting' | 'me'>,
) {
  const { id, scope, organization_id, provider_id, name, type, priority, ...shown } = providerSetting;
  const { base_url, models, api_key_set, extra_header_names } = shown;
  await sql('provider_settings').insert({
    ...{ id, scope, organization_id, provider_id, name, priority, api_key_set },
    owner_id: organization_id,
    entry: JSON.stringify({ type, base_url, models }),
    extra_header_names: JSON.stringify(extra_header_names),
    created_by: me.id,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

export async function seedMcpServer(
  sql: Knex.Transaction,
  { mcpServer, me }: Pick<ExampleSeed, 'mcpServer' | 'me'>,
) {
  const { id, scope, organization_id, name, type, url, header_names, ...said } = mcpServer;
  const { timeout, disabled_tools, disabled } = said;
  await sql('mcp_servers').insert({
    ...{ id, scope, organization_id, name },
    owner_id: organization_id ?? me.id,
    user_id: scope === 'user' ? me.id : null,
    entry: JSON.stringify({ type, url, timeout, disabled_tools, disabled }),
    env_names: '[]',
    header_names: JSON.stringify(header_names),
    connection: 1,
    created_by: me.id,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

async function seedCatalog(sql: Knex.Transaction, { models, ...catalog }: Catalog) {
  const times = { created_at: at, updated_at: at };
  const rest = { mark: 'of the example', failures: 0, revision: 1 };
  await sql('model_catalogs').insert({ ...catalog, ...rest, ...times, models: JSON.stringify(models) });
}

async function seedQuota(sql: Knex.Transaction, { me, quota, usage }: ExampleSeed, place: Place) {
  const { use: _use, limits, ...columns } = quota;
  const user = { scope: quota.organization_id ?? '', user_id: me.id };
  const stamp = { revision: 1, created_at: at, updated_at: at };
  await sql('quotas').insert({ ...columns, ...user, limits: JSON.stringify(limits), ...stamp });
  const spender = {
    ...{ organizationId: place.organization_id, workspaceId: place.workspace_id },
    ...{ userId: me.id, apiKeyId: null },
  };
  // In the present month, which is what is asked for without a period.
  for (const { cost, usage: tokens } of usage)
    await meter(sql, spender, { requests: 1, model: 'demo:demo-1', usage: tokens, cost }, Date.now());
}
