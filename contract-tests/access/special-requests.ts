/** Operations for which the contract's example is not enough: what they are asked of stands in a body, or is good once. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startMcp } from '../mcp/start-mcp.ts';
import { signInRequests } from './sign-in-requests.ts';
import type { RequestPlace, Special, SpecialRequest } from './special-request.ts';
import { newSkillText } from './things.ts';

const inWorkspace: Special = ({ ids }) => ({ body: { workspace_id: ids.workspace_id } });
const ofWorkspace: Special = ({ ids }) => ({ query: { workspace_id: ids.workspace_id ?? '' } });
const defaultsOfWorkspace = ({ ids }: RequestPlace) => ({
  query: { scope: 'workspace', workspace_id: ids.workspace_id ?? '' },
});
const ofOrganization: Special = ({ ids }) => ({ query: { organization_id: ids.org_id ?? '' } });
const ofSkill: Special = ({ ids }) => ({ body: { scope: 'workspace', workspace_id: ids.workspace_id } });
const inSession: Special = ({ ids }) => ({ body: { session_id: ids.session_id } });

export const specialRequests: Readonly<Record<string, Special>> = {
  ...signInRequests,
  createSession: inWorkspace,
  createAgent: inWorkspace,
  createCorpus: inWorkspace,
  addDocuments: ({ ids }) => ({
    body: { texts: [{ title: 'A', text: 'About nothing.' }], file_ids: [ids.file_id] },
  }),
  putCorpusAccess: ({ ids }) => ({ body: { grants: [{ principal: ids.group_id, role: 'viewer' }] } }),
  uploadFile: inWorkspace,
  // While it is being read the answer is another one.
  getFileText: () => ({ query: { wait_seconds: '30' } }),
  searchCorpora: ({ ids }) => ({ body: { corpus_ids: [ids.corpus_id], query: 'Anything' } }),
  importMemories: inWorkspace,
  purgeMemories: ({ ids }) => ({
    body: { scope: 'agent', agent_slug: 'nobody', workspace_id: ids.workspace_id },
  }),
  // The same is kept once in a workspace.
  updateMemory: () => ({ body: { content: `Remember ${crypto.randomUUID()}.` } }),
  createJob: inWorkspace,
  listSkills: ofWorkspace,
  createSkill: ({ ids }) => ({
    body: { scope: 'workspace', workspace_id: ids.workspace_id, file: newSkillText() },
  }),
  putSkill: ({ ids }) => ({ body: { file: newSkillText(ids.skill_name) } }),
  enableSkill: ofSkill,
  disableSkill: ofSkill,
  applySkillRepository: ({ ids }) => ({ body: { commit: ids.commit } }),
  createUpload: inWorkspace,
  appendUpload: () => ({ headers: { 'Upload-Offset': '0' } }),
  createMemory: ({ ids }) => ({
    body: { scope: 'workspace', workspace_id: ids.workspace_id, content: `Remember ${crypto.randomUUID()}.` },
  }),
  createProviderSetting: ({ ids }) => ({
    body: { scope: 'workspace', workspace_id: ids.workspace_id, name: crypto.randomUUID(), disable: true },
  }),
  listProviderSettings: ofWorkspace,
  createMcpServer: ({ ids }) => ({
    body: {
      ...{ scope: 'workspace', workspace_id: ids.workspace_id, name: `m-${crypto.randomUUID()}` },
      ...{ type: 'http', url: 'https://mcp.example.com/mcp', disabled: true },
    },
  }),
  listMcpServers: ofWorkspace,
  getDefaultModels: defaultsOfWorkspace,
  putDefaultModels: (place) => ({ ...defaultsOfWorkspace(place), body: { large: null } }),
  generateImage: inWorkspace,
  synthesizeSpeech: inWorkspace,
  transcribeAudio: inWorkspace,
  importSession: ofWorkspace,
  webSearch: inWorkspace,
  listAgents: ofWorkspace,
  listTools: ofWorkspace,
  streamEvents: ({ ids }) => ({ query: { workspace_id: ids.workspace_id ?? '', follow: 'false' } }),
  createWorkspace: ({ ids }) => ({ body: { organization_id: ids.org_id } }),
  listGroups: ofOrganization,
  listUsers: ofOrganization,
  listAuditLogs: ofOrganization,
  exportAuditLogs: ofOrganization,
  createQuery: inSession,
  streamQuery: inSession,
  estimateQuery: inSession,
  createMessage: ({ ids }) => ({ headers: { 'x-service-session-id': ids.session_id ?? '' } }),
  // A key gives no scope that it does not have.
  createApiKey: () => ({ body: { scopes: ['keys:write'] } }),
  createOrganization: async ({ world, sender }) => ({
    async undo({ status, text, headers }) {
      if (status !== 201) return;
      await fetch(`${world.server.url}/api/v1/organizations/${JSON.parse(text).id}`, {
        method: 'DELETE',
        headers: { Authorization: `Bearer ${sender.token}`, 'If-Match': headers.get('ETag') ?? '' },
      });
    },
  }),
  acceptInvitation,
  completeMcpOauth,
  startMcpOauth: () => ({ body: {} }),
  completeProviderOauth,
  trustWorkspace,
};

/** Into an organization that is there for this alone. */
async function acceptInvitation({ world: { cast }, sender }: RequestPlace): Promise<SpecialRequest> {
  const { person } = sender;
  if (!person) return {};
  const { client } = person.id === cast.theirs.owner.id ? cast.ours.owner : cast.theirs.owner;
  const { data } = await client.POST('/api/v1/organizations', { body: { name: 'Short-lived' } });
  const path = { org_id: data.id };
  const { data: invited } = await client.POST('/api/v1/organizations/{org_id}/invitations', {
    params: { path },
    body: { email: person.email },
  });
  return {
    body: { token: invited.token },
    async undo() {
      const header = { 'If-Match': '*' };
      await client.DELETE('/api/v1/organizations/{org_id}', { params: { path, header } });
    },
  };
}

/** Of an attempt that the owner has begun, at a server that nobody else has. */
async function completeMcpOauth({ world: { cast } }: RequestPlace): Promise<SpecialRequest> {
  const { client } = cast.ours.owner;
  const { url } = await startMcp();
  const server = { scope: 'user' as const, name: `m-${crypto.randomUUID()}`, type: 'http' as const, url };
  const made = await client.POST('/api/v1/mcp/servers', { body: server });
  const path = { server_id: made.data.id };
  const begun = await client.POST('/api/v1/mcp/servers/{server_id}/oauth/start', { params: { path } });
  const state = new URL(begun.data.authorize_url).searchParams.get('state') ?? '';
  return {
    query: { state, code: 'of-the-matrix' },
    async undo() {
      await client.DELETE('/api/v1/mcp/servers/{server_id}', { params: { path } });
    },
  };
}

/** Of an attempt that the owner has begun, at a provider that gives tokens once. */
async function completeProviderOauth({ world: { cast }, ids }: RequestPlace): Promise<SpecialRequest> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify({ access_token: 'of-the-matrix', expires_in: 3600 }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const urls = { auth_url: 'https://auth.example.com/', token_url: `http://127.0.0.1:${port}/token` };
  const { client } = (ids.org_id === cast.ours.id ? cast.ours : cast.theirs).owner;
  const { data } = await client.POST('/api/v1/settings/providers/{setting_id}/oauth/start', {
    params: { path: { setting_id: ids.setting_id ?? '' } },
    body: { flow: 'code', client: { client_id: 'service', ...urls } },
  });
  return {
    body: { state: data.state, code: 'of-the-matrix' },
    undo: async () => {
      server.close();
    },
  };
}

/** The files have to be those that are there. */
async function trustWorkspace({ world: { cast }, ids }: RequestPlace): Promise<SpecialRequest> {
  const { client } = (ids.org_id === cast.ours.id ? cast.ours : cast.theirs).owner;
  const path = { workspace_id: ids.workspace_id ?? '' };
  await client.PATCH('/api/v1/workspaces/{workspace_id}/config', {
    params: { path, header: { 'If-Match': '*' } },
    body: { options: { debug: true } },
  });
  const { data } = await client.GET('/api/v1/workspaces/{workspace_id}/trust', { params: { path } });
  return { body: { files: data.files.map(({ path: file, sha256 }) => ({ path: file, sha256 })) } };
}
