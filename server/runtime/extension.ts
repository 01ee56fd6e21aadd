/** What an extension is: a part that brings something from outside of this program: MCP servers, language servers, skills, context files. */
import type { Tool as ToolListing, ToolResult } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Log } from '../log.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { LoginKeeper } from './mcp/login-keeper.ts';
import type { OwnMcpServer, OwnMcpServers } from './mcp/own-servers.ts';
import type { Sandbox, SandboxUnavailable } from './processes/sandbox.ts';
import type { FoundSkill } from './skills/found-skill.ts';
import type { SkillKeeper } from './skills/skill-keeper.ts';
import type { Tool } from './tools/tool.ts';

/** Where an extension is to work. */
export interface ExtensionPlace {
  /** The real path of the workspace folder. */
  readonly workspacePath: string;
  /** The MCP servers that count there for whoever asks, besides those of the settings. */
  readonly ownMcpServers?: readonly OwnMcpServer[];
  /** For whom, and in which workspace; absent where nobody asks. */
  readonly asker?:
    | { readonly userId: string; readonly workspaceId: string; readonly bound?: boolean | undefined }
    | undefined;
}

/** The settings as they count now. */
export interface ExtensionSettings {
  readonly config: ClientConfig;
  /** Whether many people share this runtime: what an extension starts then runs in the sandbox, or not at all. */
  readonly shared: boolean;
}

/**
 * A copy of one entry of the settings (`/lsp/go`, say) with its variables and commands replaced. To be asked at the
 * moment of use, since the outcome may hold secrets; rejects with an error whose message may be shown.
 */
export type ExpandSetting = <Value>(value: Value, pointer: string, signal?: AbortSignal) => Promise<Value>;

/** How one server, skill or file of an extension is. */
export interface ExtensionState {
  readonly name: string;
  /** Whose a skill or a context file is; absent for a server, which the settings name. */
  readonly source?: 'builtin' | 'user' | 'project' | 'repository';
  readonly state: 'disabled' | 'idle' | 'starting' | 'ready' | 'failed';
  /** Why it failed or is off, in a sentence; null where there is nothing to say. */
  readonly detail: string | null;
}

/** What an extension is built from. */
export interface ExtensionParts {
  readonly first: ExtensionSettings;
  readonly sandbox: Sandbox | SandboxUnavailable;
  /** Folders that nothing which an extension starts may see. */
  readonly hiddenPaths: readonly string[];
  /** Replaces what the settings leave open: an entry's templates. */
  readonly expand: ExpandSetting;
  /** Context files of the person or the operator, which count in every workspace. */
  readonly contextFiles: readonly string[];
  /** Folders with skills of the person or the operator. */
  readonly skillFolders: readonly string[];
  /** Keeps skills of people, workspaces and organizations; without one there are files alone. */
  readonly skillKeeper?: SkillKeeper | undefined;
  /** Fetches every URL that an extension is given or told. */
  readonly outbound: Outbound;
  readonly mcpLogins: LoginKeeper;
  readonly ownMcpServers: OwnMcpServers;
  readonly log: Log;
}

/** A part that brings tools from outside. None of its functions rejects: what does not work is absent, and its state says why. */
export interface Extension {
  readonly name: 'mcp' | 'lsp' | 'skills' | 'context';
  /** Takes up settings: what they no longer name has stopped when this resolves. */
  apply(settings: ExtensionSettings): Promise<void>;
  /** What the agent has of it now in this workspace. */
  tools(place: ExtensionPlace): Promise<readonly Tool[]>;
  /** The tools that it may bring, those that are off among them; for lists of tools, which know no place. */
  listing?(): readonly ToolListing[];
  /** What the model is told of it before the conversation. */
  instructions?(place: ExtensionPlace): Promise<string>;
  /** What there is to say about a file that was just changed; empty for nothing. */
  noteAfterChange?(path: string, place: ExtensionPlace, signal: AbortSignal): Promise<string>;
  /** A file that the agent has just read: what it will ask about soon may be got ready. Must return at once. */
  noticeRead?(path: string, place: ExtensionPlace): void;
  /** Folders outside of the workspace that its tools may read without asking, and commands see. */
  readableFolders?(place: ExtensionPlace): readonly string[];
  /** Those that a run was given by these results, before another process took it over, and that are still as they were. */
  readableByResults?(results: readonly ToolResult[]): Promise<readonly string[]>;
  states(place: ExtensionPlace): readonly ExtensionState[];
  /** The skills that it finds, those that are off or broken among them. */
  skills?(place: ExtensionPlace): Promise<readonly FoundSkill[]>;
  close(): Promise<void>;
}
