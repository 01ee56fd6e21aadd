/** The agent profiles: who answers, with which instructions, and what it leaves of a run's tools and rights. */
import type { Agent, PermissionMode } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { builtInProfiles } from './builtin-profiles.ts';
import { createProfileFiles, distinct, type ProfileFiles } from './profile-files.ts';

/** A profile narrows what a run may do; it never widens it. */
export type Profile = Readonly<
  Pick<
    Agent,
    'slug' | 'name' | 'description' | 'instructions' | 'tools' | 'model' | 'permission_mode' | 'source'
  >
>;

/** Where profiles are looked for. */
export interface ProfilePlace {
  readonly workspaceId: string;
  /** The real path of the workspace folder. */
  readonly workspacePath: string;
}

/** Profiles that a program hands in: those of the organization that owns the workspace. */
export interface ProfileSource {
  find(workspaceId: string, slug: string): Promise<Profile | null>;
  /** Not all of them where there are many. */
  list(workspaceId: string): Promise<readonly Profile[]>;
}

export interface Profiles {
  /** Throws Problem agent_not_found. */
  find(slug: string, place: ProfilePlace): Promise<Profile>;
  /** Those that are built in or come from files, and were not handed in. */
  own(place: ProfilePlace): Promise<readonly Profile[]>;
  /** All of them, for a model that looks for a sub-agent. */
  list(place: ProfilePlace): Promise<readonly Profile[]>;
}

export interface ProfilesOptions {
  readonly source?: ProfileSource | undefined;
  /** The folder with the person's own profiles, which may not be there. */
  readonly directory?: string | undefined;
  /** Whether many people share the runtime: see `projectFolders`. */
  readonly shared: () => boolean;
}

export function createProfiles({ source, directory, shared }: ProfilesOptions): Profiles {
  const files = createProfileFiles(directory, shared);
  return {
    async find(slug, place) {
      const known = builtInProfiles.find((profile) => profile.slug === slug);
      const found = known ?? (await source?.find(place.workspaceId, slug)) ?? null;
      return found ?? (await fromFiles(files, slug, place));
    },
    own: async (place) => distinct([...builtInProfiles, ...(await files.read(place.workspacePath)).profiles]),
    list: async (place) =>
      distinct([
        ...builtInProfiles,
        ...((await source?.list(place.workspaceId)) ?? []),
        ...(await files.read(place.workspacePath)).profiles,
      ]),
  };
}

async function fromFiles(files: ProfileFiles, slug: string, place: ProfilePlace): Promise<Profile> {
  const { profiles, broken } = await files.read(place.workspacePath);
  const found = profiles.find((profile) => profile.slug === slug);
  if (found) return found;
  const fault = broken.find(({ file }) => file === `${slug}.md`);
  const known = distinct([...builtInProfiles, ...profiles]).map((profile) => profile.slug);
  throw new Problem(
    'agent_not_found',
    fault
      ? `The agent profile ${JSON.stringify(slug)} cannot be used: ${fault.why}.`
      : `There is no agent profile ${JSON.stringify(slug)}; there is: ${known.join(', ')}, and what /api/v1/agents lists.`,
  );
}

/** Whether a profile leaves a run this tool. The tool `plan` waits for a person: only who names it has it. */
export function leavesTool({ tools }: Pick<Profile, 'tools'>, name: string): boolean {
  if (name === 'plan') return tools?.includes('plan') ?? false;
  const fits = (tool: string) => (tool.endsWith('*') ? name.startsWith(tool.slice(0, -1)) : tool === name);
  return tools === null || tools.some(fits);
}

/** From what asks least to what asks most. */
const modes: readonly PermissionMode[] = ['bypass', 'accept_edits', 'ask', 'deny_unlisted', 'read_only'];

/** The stricter of the two: a profile is a ceiling, not a right. */
export function stricterMode(mode: PermissionMode, ceiling: PermissionMode | null): PermissionMode {
  return ceiling !== null && modes.indexOf(ceiling) > modes.indexOf(mode) ? ceiling : mode;
}
