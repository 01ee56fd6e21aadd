/** What a person's runs in a workspace have of skills, joined with what the store knows of those that are kept. */
import { createHash } from 'node:crypto';
import type { Skill } from '../contract/api.ts';
import type { Principal, Services } from '../handler.ts';
import { askerIn } from './asked-session.ts';

export interface SkillPlace {
  readonly id: string;
  readonly organizationId: string;
}

/** A skill as it is shown, and where its files are to be had. */
export interface ListedSkill {
  readonly skill: Skill;
  /** The ETag of its row; null for what lies in a folder. */
  readonly rowTag: string | null;
  /** The files of one that is kept in the database. */
  readonly kept: { files(): Promise<KeptFile[]> } | null;
  /** The folder of one that is not. */
  readonly folder: string | null;
  /** Of SKILL.md; null where the files say it, or nobody can read it. */
  readonly text: string | null;
}

type Found = Awaited<ReturnType<Services['runtime']['skillsOf']>>[number];
type Stored = Awaited<ReturnType<Services['store']['skills']['forRuns']>>['skills'][number];
type KeptFile = Awaited<ReturnType<Services['store']['skills']['files']>>[number];

/** Those that count, and of the others those that are kept in the database. */
export async function listedSkills(
  principal: Principal,
  { id: workspaceId }: SkillPlace,
  { runtime, store }: Services,
): Promise<readonly ListedSkill[]> {
  const asker = askerIn(principal, workspaceId);
  const [counting, { skills, disabled }] = await Promise.all([
    runtime.skillsOf(asker),
    store.skills.forRuns(asker),
  ]);
  const stored = new Map(skills.map((skill) => [skill.id, skill]));
  const counted = new Map(counting.map((skill) => [skill.name, skill]));
  const others = skills.filter(({ name, id }) => counted.get(name)?.id !== id);
  const files = (id: string) => ({ files: () => store.skills.files(id) });
  return [
    ...counting.map((skill): ListedSkill => {
      const row = skill.id === null ? undefined : stored.get(skill.id);
      const { text, folder } = skill;
      if (!row) return { skill: ofFolder(skill, workspaceId), rowTag: null, kept: null, folder, text };
      return {
        skill: ofRow(row, skill, null),
        rowTag: row.etag,
        kept: files(row.id),
        folder: null,
        text: null,
      };
    }),
    ...others.map((row): ListedSkill => {
      const before = counted.get(row.name);
      const disabledBy = before?.disabledBy ?? disabled.get(row.name) ?? null;
      const shadow = before ? idOf(before, workspaceId) : null;
      const skill = ofRow(row, { forModels: false, failed: null, disabledBy }, shadow);
      return { skill, rowTag: row.etag, kept: files(row.id), folder: null, text: null };
    }),
  ];
}

function ofRow(
  row: Stored,
  { forModels, failed, disabledBy }: Pick<Found, 'forModels' | 'failed' | 'disabledBy'>,
  shadowedBy: string | null,
): Skill {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    source: row.source,
    scope: row.scope,
    organization_id: row.organizationId,
    workspace_id: row.workspaceId,
    enabled: forModels && disabledBy === null && shadowedBy === null,
    disabled_by: disabledBy,
    shadowed_by: shadowedBy,
    error: failed,
    digest: row.digest,
    files: row.files,
    size: row.size,
    created_by: row.createdBy,
    created_at: row.createdAt,
    updated_at: row.updatedAt,
  };
}

function ofFolder(found: Found, workspaceId: string): Skill {
  const { name, description, source, failed, forModels, disabledBy } = found;
  return {
    id: idOf(found, workspaceId),
    ...{ name, description, source },
    scope: source === 'project' ? 'workspace' : 'installation',
    organization_id: null,
    workspace_id: source === 'project' ? workspaceId : null,
    enabled: forModels && disabledBy === null,
    disabled_by: disabledBy,
    shadowed_by: null,
    error: failed,
    ...{ digest: null, files: null, size: null, created_by: null, created_at: null, updated_at: null },
  };
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** One that is not kept has the same id wherever it is asked for: it follows from the place and the name. */
function idOf({ id, name, source }: Pick<Found, 'id' | 'name' | 'source'>, workspaceId: string): string {
  if (id !== null) return id;
  const place = source === 'project' ? workspaceId : '';
  const hash = createHash('sha256')
    .update(JSON.stringify([source, place, name]))
    .digest();
  const letters = [...hash.subarray(0, 26)].map((byte) => alphabet[byte % 32]).join('');
  // The first letter of an id stands for three bits only.
  return `skl_${(hash[31] ?? 0) % 8}${letters.slice(1)}`;
}
