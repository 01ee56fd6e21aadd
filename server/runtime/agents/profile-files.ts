/** Agent profiles in files: Markdown whose front matter names the profile and whose text is its instructions. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { faultOf, readFrontMatter } from '../guidance/front-matter.ts';
import { readGuidance } from '../guidance/guidance-file.ts';
import { isThere } from '../guidance/presence.ts';
import { projectFolders } from '../guidance/project-folders.ts';
import type { Profile } from './profile.ts';

/** What the folders hold now. */
export interface ReadProfiles {
  /** Each slug once: the person's own files count before those of the project. */
  readonly profiles: readonly Profile[];
  readonly broken: readonly BrokenFile[];
}

export interface BrokenFile {
  /** The name of the file. */
  readonly file: string;
  /** A sentence without its full stop. */
  readonly why: string;
}

export interface ProfileFiles {
  read(workspacePath: string): Promise<ReadProfiles>;
}

/** A folder of a repository may hold anything. */
const mostFiles = 100;
const mostBytes = 128 * 1024;

/** A file, and what may be read of it: null where the person put it there. */
interface Place {
  readonly folder: string;
  readonly within: string | null;
}

/** Files are read each time: what a person has just written counts for the next run. */
export function createProfileFiles(globalDirectory: string | undefined, shared: () => boolean): ProfileFiles {
  return {
    async read(workspacePath) {
      const folders = await projectFolders(workspacePath, shared());
      const root = folders[0] ?? workspacePath;
      const places: Place[] = [
        ...(globalDirectory === undefined ? [] : [{ folder: globalDirectory, within: null }]),
        ...[...new Set([workspacePath, root])].map((folder) => ({
          folder: join(folder, '.service', 'agents'),
          within: root,
        })),
      ];
      const read = (await Promise.all(places.map(readFolder))).flat();
      return {
        profiles: distinct(read.filter((one) => 'slug' in one)),
        broken: read.filter((one) => 'why' in one),
      };
    },
  };
}

/** Of two with one slug the first counts. */
export function distinct<Given extends { readonly slug: string }>(profiles: readonly Given[]): Given[] {
  return [...new Map(profiles.toReversed().map((profile) => [profile.slug, profile])).values()].reverse();
}

async function readFolder(place: Place): Promise<(Profile | BrokenFile)[]> {
  if (!isThere(place.folder)) return [];
  const names = await readdir(place.folder).catch(() => []);
  const files = names.filter((name) => name.endsWith('.md')).sort();
  const read = await Promise.all(files.slice(0, mostFiles).map((file) => readProfile(place, file)));
  return read.filter((one) => one !== null);
}

async function readProfile({ folder, within }: Place, file: string): Promise<Profile | BrokenFile | null> {
  const read = await readGuidance(join(folder, file), { within, maxBytes: mostBytes });
  if (read === null) return null;
  if ('failed' in read) return { file, why: read.failed };
  if (read.cut) return { file, why: `it is larger than ${mostBytes / 1024} KiB` };
  try {
    return toProfile(read.text, file, within === null ? 'global' : 'project');
  } catch (error) {
    return { file, why: error instanceof Error ? error.message : String(error) };
  }
}

const slug = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'has to be of small letters, digits, - and _, 64 at most');
const toolNames = z
  .array(z.string().regex(/^([A-Za-z0-9_-]{1,128}\*?|\*)$/, 'is no name of a tool'))
  .max(200)
  // Named twice, a tool is the same tool.
  .transform((names) => [...new Set(names)]);
/** An escape of YAML makes characters that the file itself does not hold. */
const text = (longest: number) =>
  z
    .string()
    .min(1)
    .max(longest)
    .refine((value) => !value.includes('\0'), 'holds the character NUL');
const modelName = z
  .string()
  .min(1)
  .max(200)
  .refine((value) => [...value].every((sign) => sign >= ' '), 'holds a control character');
/** What the contract takes of others, counted as it counts: by code points. */
const mostInstructions = 100_000;

/** Other members are for other programs. */
const rules = z.object({
  slug: slug.optional(),
  name: text(200).optional(),
  description: text(1024),
  tools: z
    .union([
      z.string().transform((text) =>
        text
          .split(',')
          .map((name) => name.trim())
          .filter(Boolean),
      ),
      z.array(z.string()),
    ])
    .pipe(toolNames)
    .optional(),
  model: modelName.optional(),
  permission_mode: z.enum(['ask', 'accept_edits', 'read_only', 'deny_unlisted']).optional(),
});

function toProfile(text: string, file: string, source: 'global' | 'project'): Profile {
  const { fields, body } = readFrontMatter(text, rules);
  if (body === '') throw new Error('it has no instructions below its front matter');
  if ([...body].length > mostInstructions)
    throw new Error('its instructions are longer than 100,000 characters');
  const { name, description, tools = null, model = null, permission_mode = null } = fields;
  const named = slug.safeParse(fields.slug ?? slug.safeParse(name).data ?? file.slice(0, -'.md'.length));
  if (!named.success) throw new Error(`its slug ${faultOf(named.error)}`);
  return {
    slug: named.data,
    name: name ?? named.data,
    description,
    instructions: body,
    tools,
    // A repository may prefer one of the person's two models, but not choose who reads along and what it costs.
    model: source === 'project' && model !== 'large' && model !== 'small' ? null : model,
    permission_mode,
    source,
  };
}
