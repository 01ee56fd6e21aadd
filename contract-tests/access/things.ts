/** What the ids of a path name: each made anew by the owner of an organization, in its workspace. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { DocumentsAdd } from '@service/client/api';
import { type RunEvent, streamQuery } from '@service/client/stream';
import type { ContractOperation } from '../contract.ts';
import { startGitServer, type TestRepository } from '../git/start-git.ts';
import { startMcp, type TestMcpServer } from '../mcp/start-mcp.ts';
import { newWorkspace, type Organization, password } from './people.ts';
import { formOf } from './wire.ts';

/** By the names of the parameters of paths. What a thing brings along besides can be named in a body. */
export type Ids = Readonly<Record<string, string>>;

/** `expendable`: the whole organization or workspace is going to be deleted, by somebody whose role suffices for that. */
type Make = (organization: Organization, wanted: { readonly expendable: boolean }) => Promise<Ids>;

const model = 'scripted:scripted-1';

/** By the part of a path that ends with its last id. */
const things: Readonly<Record<string, Make>> = {
  '/api/v1/auth/logins/{login_id}': newLogin,
  '/api/v1/auth/oidc/{provider}': async () => ({ provider: 'corp' }),
  '/api/v1/auth/api-keys/{key_id}': newKey,
  '/api/v1/organizations/{org_id}': async (organization, { expendable }) => ({
    org_id: expendable ? await newOrganization(organization) : organization.id,
  }),
  '/api/v1/organizations/{org_id}/members/{user_id}': newPerson,
  '/api/v1/organizations/{org_id}/invitations/{invitation_id}': newInvitation,
  '/api/v1/groups/{group_id}': newGroup,
  '/api/v1/groups/{group_id}/members/{user_id}': newGroupMember,
  '/api/v1/users/{user_id}': newPerson,
  '/api/v1/workspaces/{workspace_id}': async (organization, { expendable }) => ({
    workspace_id: expendable ? await newWorkspace(organization) : organization.workspaceId,
  }),
  '/api/v1/workspaces/{workspace_id}/members/{principal_id}': newWorkspaceMember,
  '/api/v1/sessions/{session_id}': newConversation,
  '/api/v1/sessions/{session_id}/messages/{message_id}': newConversation,
  '/api/v1/sessions/{session_id}/permissions/{request_id}': askingPermission,
  '/api/v1/sessions/{session_id}/prompts/{request_id}': askingQuestion,
  '/api/v1/runs/{run_id}': newConversation,
  '/api/v1/agents/{agent_id}': newAgent,
  '/api/v1/files/{file_id}': newFile,
  '/api/v1/corpora/{corpus_id}': newCorpus,
  '/api/v1/corpora/{corpus_id}/documents/{document_id}': newDocument,
  '/api/v1/corpora/{corpus_id}/ingestion-jobs/{ingestion_id}': newDocument,
  '/api/v1/files/uploads/{upload_id}': newUpload,
  '/api/v1/memories/{memory_id}': newMemory,
  '/api/v1/mcp/servers/{server_id}': newMcpServer,
  '/api/v1/scheduler/jobs/{job_id}': newJob,
  '/api/v1/scheduler/jobs/{job_id}/runs/{job_run_id}': newJobRun,
  '/api/v1/skills/{skill_id}': newSkill,
  '/api/v1/skills/repositories/{repository_id}': newSkillRepository,
  '/api/v1/plans/{plan_id}': newPlan,
  '/api/v1/settings/providers/{setting_id}': newProviderSetting,
  '/api/v1/settings/providers/{setting_id}/models/{model_id}': newCustomModel,
  '/api/v1/quotas/{subject_type}/{subject_id}': newQuota,
  '/api/v1/settings/providers/catalogs/{catalog_id}': newCatalog,
  '/api/v1/audit/logs/{entry_id}': newestEntry,
  '/v1/models/{model_id}': async () => ({ model_id: model }),
};

/** Some operations need it in a certain state, or have it in their body or a header. */
const thingsOfOperations: Readonly<Record<string, Make>> = {
  putCorpusAccess: newGrantedCorpus,
  cancelIngestionJob: lastingIngestion,
  addDocuments: async (organization) => ({
    ...(await newCorpus(organization)),
    ...(await newFile(organization)),
  }),
  retryIngestionJob: cancelledIngestion,
  resumeJob: newPausedJob,
  cancelJobRun: newWaitingJobRun,
  getSkillRepositoryProposal: fetchedSkillRepository,
  applySkillRepository: fetchedSkillRepository,
  testProviderSetting: newSettingOfNobody,
  refreshProviderModels: newSettingOfNobody,
  completeUpload: newWholeUpload,
  interruptRun: askingQuestion,
  interruptSession: askingQuestion,
  searchCorpora: newCorpus,
  searchSessions: newConversation,
  createQuery: newConversation,
  streamQuery: newConversation,
  estimateQuery: newConversation,
  createMessage: newConversation,
};

let made = 0;

/** What belongs to no organization. */
const nobodys: readonly string[] = [
  'subject_type',
  'provider',
  'catalog_id',
  'model_id',
  'skill_name',
  'repository_id',
  'commit',
];

/** Makes what the path of an operation names; an operation without ids gets those of the organization. */
export async function makeThing(
  { operationId, path }: Pick<ContractOperation, 'operationId' | 'path'>,
  organization: Organization,
  wanted = { expendable: false },
): Promise<Ids> {
  made += 1;
  const place = path.slice(0, path.lastIndexOf('}') + 1);
  const make = thingsOfOperations[operationId] ?? things[place];
  if (!make && place !== '')
    throw new Error(`${operationId}: say in contract-tests/access/things.ts how its owner makes ${place}`);
  const standing = { org_id: organization.id, workspace_id: organization.workspaceId };
  const ids = { ...standing, ...(await make?.(organization, wanted)) };
  for (const [name, id] of Object.entries(ids)) if (!nobodys.includes(name)) organization.secrets.add(id);
  return ids;
}

/** What `things` tells of and the contract does not have (any more). */
export function needlessThings(operations: readonly ContractOperation[]): string[] {
  const places = new Set(operations.map(({ path }) => path.slice(0, path.lastIndexOf('}') + 1)));
  const names = new Set(operations.map(({ operationId }) => operationId));
  return [
    ...Object.keys(things).filter((place) => !places.has(place)),
    ...Object.keys(thingsOfOperations).filter((name) => !names.has(name)),
  ];
}

async function newLogin({ owner: { client, email } }: Organization): Promise<Ids> {
  await client.POST('/api/v1/auth/login', { body: { email, password } });
  const { data } = await client.GET('/api/v1/auth/logins');
  return { login_id: data.data[0]?.id ?? '' };
}

/** With one scope: a key with no other can give its own on. */
async function newKey({ owner: { client } }: Organization): Promise<Ids> {
  const body = { name: 'Build server', scopes: ['keys:write' as const] };
  return { key_id: (await client.POST('/api/v1/auth/api-keys', { body })).data.api_key.id };
}

async function newOrganization({ owner: { client } }: Organization): Promise<string> {
  return (await client.POST('/api/v1/organizations', { body: { name: 'Short-lived' } })).data.id;
}

/** Somebody with an account that the organization manages. */
async function newPerson({ owner: { client }, id: org_id }: Organization): Promise<Ids> {
  const body = { email: `person-${made}@example.com`, role: 'viewer' as const, organization_id: org_id };
  const { data } = await client.POST('/api/v1/users', { body });
  return { org_id, user_id: data.user.id };
}

async function newInvitation({ owner: { client }, id: org_id }: Organization): Promise<Ids> {
  const { data } = await client.POST('/api/v1/organizations/{org_id}/invitations', {
    params: { path: { org_id } },
    body: { email: `invited-${made}@example.com` },
  });
  return { org_id, invitation_id: data.invitation.id };
}

let groups = 0;

async function newGroup({ owner: { client }, id: organization_id }: Organization): Promise<Ids> {
  groups += 1;
  const body = { organization_id, name: `Readers ${groups}` };
  return { group_id: (await client.POST('/api/v1/groups', { body })).data.id };
}

async function newGroupMember(organization: Organization): Promise<Ids> {
  const { client, id: user_id } = organization.owner;
  const { group_id = '' } = await newGroup(organization);
  await client.PUT('/api/v1/groups/{group_id}/members/{user_id}', {
    params: { path: { group_id, user_id } },
  });
  return { group_id, user_id };
}

async function newWorkspaceMember(organization: Organization): Promise<Ids> {
  const { owner, workspaceId: workspace_id } = organization;
  const { group_id: principal_id = '' } = await newGroup(organization);
  await owner.client.PUT('/api/v1/workspaces/{workspace_id}/members/{principal_id}', {
    params: { path: { workspace_id, principal_id } },
    body: { role: 'viewer' },
  });
  return { workspace_id, principal_id };
}

async function newSession({ owner: { client }, workspaceId }: Organization): Promise<string> {
  return (await client.POST('/api/v1/sessions', { body: { workspace_id: workspaceId } })).data.id;
}

/** A session with a prompt and its answer. */
async function newConversation(organization: Organization): Promise<Ids> {
  const { client } = organization.owner;
  const session_id = await newSession(organization);
  const { data } = await client.POST('/api/v1/query', { body: { prompt: 'Hello', session_id, model } });
  const { data: messages } = await client.GET('/api/v1/sessions/{session_id}/messages', {
    params: { path: { session_id } },
  });
  return { session_id, run_id: data.run_id, message_id: messages.data[0]?.id ?? '' };
}

async function askingPermission(organization: Organization): Promise<Ids> {
  // A file of its own: nobody is asked about one that is there and was not read.
  const input = JSON.stringify({ file_path: `file-${made}.txt`, content: 'x' });
  return asking(organization, `use tool write with ${input}`);
}

async function askingQuestion(organization: Organization): Promise<Ids> {
  const questions = [{ id: 'colour', type: 'free_text', text: 'Which colour?' }];
  return asking(organization, `use tool ask_user with ${JSON.stringify({ questions })}`);
}

/** A run that waits for an answer; it goes on waiting although nobody listens any more. */
async function asking(organization: Organization, prompt: string): Promise<Ids> {
  const session_id = await newSession(organization);
  for await (const event of streamQuery(organization.owner.client, { prompt, session_id, model })) {
    const request = requestIn(event);
    if (request) return { session_id, run_id: request.run_id, request_id: request.id };
  }
  throw new Error(`${prompt}: the run has ended without a question`);
}

function requestIn({ event, data }: RunEvent) {
  if (event !== 'runtime') return null;
  return data.type === 'permission_requested' || data.type === 'prompt_requested' ? data.request : null;
}

async function newAgent({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const slug = `reviewer-${made}`;
  const body = { slug, description: 'Reviews.', instructions: 'You review.', workspace_id };
  return { agent_id: (await client.POST('/api/v1/agents', { body })).data.id ?? '' };
}

async function newFile({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const body = { workspace_id, file: `The file ${made}.` };
  const { data } = await client.POST('/api/v1/files', { body, bodySerializer: formOf });
  return { file_id: data.id };
}

/** There is room for more than what the example brings. */
async function newUpload(organization: Organization): Promise<Ids> {
  return { upload_id: await beginUpload(organization, 1000, '0'.repeat(64)) };
}

/** Of nothing, all is there. */
async function newWholeUpload(organization: Organization): Promise<Ids> {
  const ofNothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  return { upload_id: await beginUpload(organization, 0, ofNothing) };
}

async function beginUpload(
  { owner: { client }, workspaceId: workspace_id }: Organization,
  size: number,
  sha256: string,
): Promise<string> {
  const body = { workspace_id, filename: `upload ${made}`, size, sha256 };
  return (await client.POST('/api/v1/files/uploads', { body })).data.id;
}

async function newMemory({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const body = { scope: 'workspace', workspace_id, content: `Remember ${crypto.randomUUID()}.` } as const;
  return { memory_id: (await client.POST('/api/v1/memories', { body })).data.id };
}

/** It runs on no day that these tests see. */
async function newJob({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const times = { cron: '0 0 29 2 *', overlap_policy: 'queue' } as const;
  const body = { workspace_id, name: `Job ${made}`, prompt: 'Hello', model, ...times };
  return { job_id: (await client.POST('/api/v1/scheduler/jobs', { body })).data.id };
}

async function newPausedJob(organization: Organization): Promise<Ids> {
  const { job_id = '' } = await newJob(organization);
  const path = { job_id };
  await organization.owner.client.POST('/api/v1/scheduler/jobs/{job_id}/pause', { params: { path } });
  return path;
}

async function newJobRun(organization: Organization): Promise<Ids> {
  const { job_id = '' } = await newJob(organization);
  const path = { job_id };
  const url = '/api/v1/scheduler/jobs/{job_id}/run';
  const { data } = await organization.owner.client.POST(url, { params: { path } });
  return { ...path, job_run_id: data.id };
}

/** A run that waits behind a run that asks a person, in the session of both. */
async function newWaitingJobRun(organization: Organization): Promise<Ids> {
  const { client } = organization.owner;
  const { job_id = '' } = await newJob(organization);
  const { session_id = '' } = await askingQuestion(organization);
  const path = { job_id };
  await client.PATCH('/api/v1/scheduler/jobs/{job_id}', {
    params: { path },
    body: { session_mode: 'reuse', session_id },
  });
  const { data } = await client.POST('/api/v1/scheduler/jobs/{job_id}/run', { params: { path } });
  return { ...path, job_run_id: data.id };
}

/** The `SKILL.md` of a skill that nobody has yet. */
export function newSkillText(name = `skill-${crypto.randomUUID()}`): string {
  return `---\nname: ${name}\ndescription: Made for a test.\n---\nDo it well.\n`;
}

async function newSkill({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const name = `skill-${crypto.randomUUID()}`;
  const { data } = await client.POST('/api/v1/skills', {
    body: { scope: 'workspace', workspace_id, file: newSkillText(name) },
    bodySerializer: formOf,
  });
  return { skill_id: data.id, skill_name: name };
}

async function newCorpus({ owner: { client }, workspaceId: workspace_id }: Organization): Promise<Ids> {
  const { data } = await client.POST('/api/v1/corpora', { body: { workspace_id, name: `Corpus ${made}` } });
  return { corpus_id: data.id };
}

/** How many groups a corpus is granted to whose grants are changed; the last of them can be named. */
export const grantedGroups = 3;

async function newGrantedCorpus(organization: Organization): Promise<Ids> {
  const path = await newCorpus(organization);
  const grants = [];
  for (let count = 0; count < grantedGroups; count += 1) {
    const { group_id = '' } = await newGroup(organization);
    grants.push({ principal: group_id, role: 'viewer' as const });
  }
  await organization.owner.client.PUT('/api/v1/corpora/{corpus_id}/access', {
    params: { path: { corpus_id: path.corpus_id ?? '' } },
    body: { grants },
  });
  return { ...path, group_id: grants.at(-1)?.principal ?? '' };
}

async function newDocument(organization: Organization): Promise<Ids> {
  return addDocument(organization, { texts: [{ title: 'Text', text: 'This is a text.' }] });
}

/** Where nobody listens it is tried again after a while: so long the job has not ended. */
async function lastingIngestion(organization: Organization): Promise<Ids> {
  return addDocument(organization, { urls: ['http://127.0.0.1:9/page'] });
}

async function addDocument(organization: Organization, body: DocumentsAdd): Promise<Ids> {
  const ids = await newCorpus(organization);
  const { data } = await organization.owner.client.POST('/api/v1/corpora/{corpus_id}/documents', {
    params: { path: { corpus_id: ids.corpus_id ?? '' } },
    body,
  });
  return { ...ids, document_id: data.items[0]?.document_id ?? '', ingestion_id: data.id };
}

async function cancelledIngestion(organization: Organization): Promise<Ids> {
  const ids = await lastingIngestion(organization);
  await organization.owner.client.POST('/api/v1/corpora/{corpus_id}/ingestion-jobs/{ingestion_id}/cancel', {
    params: { path: { corpus_id: ids.corpus_id ?? '', ingestion_id: ids.ingestion_id ?? '' } },
  });
  return ids;
}

async function newPlan(organization: Organization): Promise<Ids> {
  const { client } = organization.owner;
  const session_id = await newSession(organization);
  const prompt = `use tool plan with ${JSON.stringify({ title: 'A better test', content: '1. Look.' })}`;
  await client.POST('/api/v1/query', { body: { prompt, session_id, model, agent_slug: 'plan' } });
  const { data } = await client.GET('/api/v1/plans', { params: { query: { session_id } } });
  return { plan_id: data.data[0]?.id ?? '' };
}

/** Disabled, so that nobody's queries go there. */
async function newProviderSetting({
  owner: { client },
  workspaceId: workspace_id,
}: Organization): Promise<Ids> {
  const setting = { scope: 'workspace' as const, provider_id: 'openai', api_key: 'k', disable: true };
  const body = { ...setting, workspace_id, name: `Key ${made}` };
  return { setting_id: (await client.POST('/api/v1/settings/providers', { body })).data.id };
}

let mcp: Promise<TestMcpServer> | undefined;

/** One that answers. */
async function newMcpServer({ owner: { client }, workspaceId }: Organization): Promise<Ids> {
  mcp ??= startMcp();
  const server = { scope: 'workspace' as const, workspace_id: workspaceId, name: `tracker-${made}` };
  const body = { ...server, type: 'http' as const, url: (await mcp).url };
  return { server_id: (await client.POST('/api/v1/mcp/servers', { body })).data.id };
}

async function newCustomModel(organization: Organization): Promise<Ids> {
  const { setting_id = '' } = await newProviderSetting(organization);
  const path = { setting_id, model_id: 'described' };
  const url = '/api/v1/settings/providers/{setting_id}/models/{model_id}';
  await organization.owner.client.PUT(url, { params: { path }, body: { name: 'Described' } });
  return path;
}

/** Without a key, and where nobody listens: no vendor is asked, and what is wrong is always the same. */
async function newSettingOfNobody({ owner: { client }, workspaceId }: Organization): Promise<Ids> {
  const place = { base_url: 'http://127.0.0.1:9/v1', models: [{ id: 'big' }], disable: true };
  const setting = { scope: 'workspace' as const, provider_id: 'nobody', workspace_id: workspaceId };
  const body = { ...setting, ...place, name: `Nobody ${made}` };
  return { setting_id: (await client.POST('/api/v1/settings/providers', { body })).data.id };
}

/** Of a group that nobody belongs to: it bites nobody. */
async function newQuota(organization: Organization): Promise<Ids> {
  const { group_id: subject_id = '' } = await newGroup(organization);
  const path = { subject_type: 'group' as const, subject_id };
  // What the operator sets is another one, beside that of the organization.
  for (const client of [organization.owner.client, organization.operator])
    await client.PUT('/api/v1/quotas/{subject_type}/{subject_id}', {
      params: { path },
      body: { limits: { jobs: { hard: 1 } } },
    });
  return path;
}

async function newCatalog({ operator }: Organization): Promise<Ids> {
  const body = { name: `Catalogue ${made}`, models: [] };
  return { catalog_id: (await operator.POST('/api/v1/settings/providers/catalogs', { body })).data.id };
}

async function newSkillRepository({ operator }: Organization): Promise<Ids> {
  const body = { url: 'https://git.example.com/house/skills.git' };
  return { repository_id: (await operator.POST('/api/v1/skills/repositories', { body })).data.id };
}

let house: Promise<TestRepository> | null = null;

async function houseOfSkills(): Promise<TestRepository> {
  const made = await (await startGitServer()).make('house');
  await made.commit({ 'tidy/SKILL.md': newSkillText('tidy') });
  return made;
}

/** One that proposes something. */
async function fetchedSkillRepository({ operator }: Organization): Promise<Ids> {
  house ??= houseOfSkills();
  const { url } = await house;
  const place = '/api/v1/skills/repositories/{repository_id}';
  const repository_id = (await operator.POST('/api/v1/skills/repositories', { body: { url } })).data.id;
  const params = { path: { repository_id } };
  await operator.POST(`${place}/sync`, { params });
  for (;;) {
    const { data } = await operator.GET(place, { params });
    if (data.state === 'failed') throw new Error(`The skills of the house were not fetched: ${data.error}`);
    if (data.proposed_commit !== null) return { repository_id, commit: data.proposed_commit };
    await sleep(50);
  }
}

async function newestEntry({ owner: { client }, id: organization_id }: Organization): Promise<Ids> {
  const { data } = await client.GET('/api/v1/audit/logs', { params: { query: { organization_id } } });
  return { entry_id: data.data[0]?.id ?? '' };
}
