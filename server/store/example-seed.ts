/** What the examples of the contract show, as the seed of a database. */
import type {
  Agent,
  ApiKey,
  AuditEntry,
  Catalog,
  Corpus,
  CorpusAccess,
  Document,
  Group,
  GroupMember,
  IngestionJobWithItems,
  Invitation,
  Job,
  JobRun,
  Login,
  McpServer,
  Me,
  Memory,
  Message,
  Organization,
  OrganizationMember,
  PermissionRequest,
  Plan,
  Preferences,
  PromptRequest,
  ProviderSetting,
  Quota,
  Run,
  Session,
  Skill,
  SkillRepository,
  SkillRepositoryProposal,
  StoredFile,
  UsageEntry,
  Workspace,
} from '../contract/api.ts';

/** The examples that are stored, and what no example shows. */
export interface ExampleSeed {
  readonly me: Me;
  readonly passwordHash: string;
  /** Where the account is logged in, with the hashes of refresh tokens for it. */
  readonly logins: readonly (Login & { readonly refreshTokenHash: string })[];
  /** What a browser has come back with from a provider. */
  readonly loginCode: { readonly codeHash: string; readonly browserHash: string };
  readonly apiKey: ApiKey;
  readonly preferences: Preferences;
  readonly sessions: readonly Session[];
  readonly runs: readonly Run[];
  readonly messages: readonly Message[];
  /** The files that the first run has made, with their texts. */
  readonly files: Readonly<Record<string, string>>;
  readonly permissions: readonly PermissionRequest[];
  readonly prompts: readonly PromptRequest[];
  readonly agents: readonly Agent[];
  readonly file: StoredFile;
  readonly corpus: Corpus;
  readonly corpusAccess: CorpusAccess;
  readonly document: Document;
  readonly ingestionJob: IngestionJobWithItems;
  /** Of the default workspace. */
  readonly memory: Memory;
  readonly job: Job;
  readonly jobRun: JobRun;
  /** As it is when it was cancelled. */
  readonly waitingJobRun: JobRun;
  /** Of the same. */
  readonly skill: Skill;
  readonly skillRepository: SkillRepository;
  /** Of that. */
  readonly skillProposal: SkillRepositoryProposal;
  readonly plans: readonly Plan[];
  /** Of the organization, with a key that nobody has. */
  readonly providerSetting: ProviderSetting;
  /** Of the organization. */
  readonly mcpServer: McpServer;
  readonly catalog: Catalog;
  readonly quota: Quota;
  readonly usage: readonly UsageEntry[];
  readonly auditEntry: AuditEntry;
  readonly organization: Organization;
  /** Another one beside the default workspace. */
  readonly workspace: Workspace;
  /** Whom the organization has besides. */
  readonly members: readonly OrganizationMember[];
  readonly invitations: readonly Invitation[];
  readonly group: Group;
  readonly groupMembers: readonly GroupMember[];
  /** An invitation into another organization, from the last of the members, that waits for the account. */
  readonly waiting: {
    readonly organization: Pick<Organization, 'id' | 'name' | 'default_workspace_id'>;
    readonly tokenHash: string;
  };
}

export const at = Date.parse('2026-11-21T08:00:00.000Z');
/** Pending questions must not expire while a test runs. */
export const later = Date.now() + 3_600_000;

/** Where everything of the examples belongs. */
export interface Place {
  readonly organization_id: string;
  readonly workspace_id: string;
}
