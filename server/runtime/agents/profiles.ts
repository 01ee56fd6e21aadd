/** Finds agent profiles: those that are built in, those handed in for a workspace, and those in files. */
import { Problem } from '../../problem.ts';
import { builtInProfiles } from './builtin-profiles.ts';
import type { Profile } from './profile.ts';
import { createProfileFiles, distinct, type ProfileFiles } from './profile-files.ts';

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
      ? `The file ${fault.file} makes no agent profile: ${fault.why}.`
      : `There is no agent profile ${JSON.stringify(slug)}; there is: ${known.join(', ')}, and what /api/v1/agents lists.`,
  );
}
