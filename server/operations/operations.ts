/** Every handler of the contract, by family. A missing, stray or doubled one does not compile. */
import type { Handlers, NoStrays } from '../handler.ts';
import * as agents from './agents.ts';
import * as apiKeys from './api-keys.ts';
import * as audit from './audit.ts';
import * as auth from './auth.ts';
import * as catalogs from './catalogs.ts';
import * as corpora from './corpora.ts';
import * as corpusSearch from './corpus-search.ts';
import * as devices from './devices.ts';
import * as documents from './documents.ts';
import * as embedder from './embedder.ts';
import * as exports from './exports.ts';
import * as files from './files.ts';
import * as groups from './groups.ts';
import * as history from './history.ts';
import * as ingestion from './ingestion.ts';
import * as invitations from './invitations.ts';
import * as live from './live.ts';
import * as logins from './logins.ts';
import * as mcpServers from './mcp-servers.ts';
import * as me from './me.ts';
import * as media from './media.ts';
import * as memories from './memories.ts';
import * as messages from './messages.ts';
import * as oidc from './oidc.ts';
import * as organizations from './organizations.ts';
import * as passwords from './passwords.ts';
import * as plans from './plans.ts';
import * as providerModels from './provider-models.ts';
import * as providerSettings from './provider-settings.ts';
import * as query from './query.ts';
import * as questions from './questions.ts';
import * as quotas from './quotas.ts';
import * as runs from './runs.ts';
import * as scheduler from './scheduler.ts';
import * as sessions from './sessions.ts';
import * as skillRepositories from './skill-repositories.ts';
import * as skills from './skills.ts';
import * as storage from './storage.ts';
import * as system from './system.ts';
import * as tools from './tools.ts';
import * as users from './users.ts';
import * as webSearch from './web-search.ts';
import * as workspaceSettings from './workspace-settings.ts';
import * as workspaces from './workspaces.ts';

const families = {
  agents,
  'api-keys': apiKeys,
  audit,
  auth,
  catalogs,
  corpora,
  'corpus-search': corpusSearch,
  devices,
  documents,
  embedder,
  exports,
  files,
  groups,
  history,
  ingestion,
  invitations,
  live,
  logins,
  me,
  media,
  'mcp-servers': mcpServers,
  memories,
  messages,
  passwords,
  oidc,
  organizations,
  plans,
  'provider-models': providerModels,
  'provider-settings': providerSettings,
  query,
  questions,
  quotas,
  runs,
  scheduler,
  sessions,
  'skill-repositories': skillRepositories,
  skills,
  storage,
  system,
  tools,
  users,
  'web-search': webSearch,
  'workspace-settings': workspaceSettings,
  workspaces,
};

export const operations = families satisfies Handlers & NoStrays<typeof families>;

export type Operations = Handlers;
