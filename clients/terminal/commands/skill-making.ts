/** `service skills validate`, `add` and `update`: what is wrong is said with file and line, before anything is kept. */
import type { ServiceClient } from '@service/client';
import type { SkillScope, SkillValidation } from '@service/client/api';
import { withService } from '../connection.ts';
import { CommandFailure } from '../failures.ts';
import { keyed } from '../lost-answers.ts';
import { counted, paint, print, printable, printJson } from '../output.ts';
import { findAddedSkill } from '../skill-names.ts';
import { formWith, readSkill, type SkillUpload } from '../skill-upload.ts';

interface Where {
  readonly server?: string;
}

/** Ends with exit code 1 where anything is wrong. */
export async function validateSkill(
  named: string,
  { server, json }: Where & { readonly json?: boolean },
): Promise<void> {
  const upload = await readSkill(named);
  const found = await withService(server, (client) => validationOf(client, upload));
  if (json) printJson(found);
  else if (found.valid) print(printable(`${found.name}: ${contentsOf(found)}, nothing is wrong`));
  else for (const fault of found.errors) print(lineOf(fault, upload));
  if (!found.valid) throw new CommandFailure(`${named} is no skill: ${amountOf(found)}.`);
}

export async function addSkill(
  named: string,
  { server, scope = 'user' }: Where & { readonly scope?: SkillScope },
): Promise<void> {
  const upload = await readSkill(named);
  await withService(server, async (client) => {
    await requireValid(client, named, upload);
    const { data } = await client.POST('/api/v1/skills', {
      params: { header: keyed() },
      body: { scope, file: named },
      bodySerializer: formWith(upload),
    });
    print(printable(`Added ${data.name} for ${forWhom(scope)} (${data.id})`));
  });
}

/** What it is called is what it replaces. */
export async function updateSkill(
  named: string,
  { server, scope }: Where & { readonly scope?: SkillScope },
): Promise<void> {
  const upload = await readSkill(named);
  await withService(server, async (client) => {
    const { name, digest } = await requireValid(client, named, upload);
    const skill = await findAddedSkill(client, name, scope);
    if (skill.digest === digest) return print(printable(`${name} has these files already (${skill.id})`));
    const params = { path: { skill_id: skill.id } };
    const { response } = await client.GET('/api/v1/skills/{skill_id}', { params });
    await client.PUT('/api/v1/skills/{skill_id}', {
      params: { ...params, header: { 'If-Match': response.headers.get('ETag') ?? '' } },
      body: { file: named },
      bodySerializer: formWith(upload),
    });
    print(printable(`Updated ${name} for ${forWhom(skill.scope)} (${skill.id})`));
  });
}

/** For whose runs, in words. */
export function forWhom(scope: SkillScope | 'installation'): string {
  if (scope === 'user') return 'your own runs';
  return scope === 'installation' ? 'all runs' : `all runs of the ${scope}`;
}

async function validationOf(client: ServiceClient, upload: SkillUpload): Promise<SkillValidation> {
  const body = { file: '' };
  const { data } = await client.POST('/api/v1/skills/validate', { body, bodySerializer: formWith(upload) });
  return data;
}

async function requireValid(client: ServiceClient, named: string, upload: SkillUpload) {
  const found = await validationOf(client, upload);
  if (found.valid && found.name !== null) return { name: found.name, digest: found.digest };
  const lines = found.errors.map((fault) => lineOf(fault, upload));
  throw new CommandFailure([`${named} is no skill: ${amountOf(found)}.`, ...lines].join('\n'));
}

function lineOf({ path, line, message }: SkillValidation['errors'][number], upload: SkillUpload): string {
  const place = path === null ? '' : `${printable(upload.placeOf(path))}:${line === null ? '' : `${line}:`} `;
  return `${place}${paint('red', 'error:')} ${printable(message)}`;
}

function amountOf({ errors }: SkillValidation): string {
  return `${counted(errors.length, 'thing')} ${errors.length === 1 ? 'is' : 'are'} wrong`;
}

function contentsOf({ files, size }: SkillValidation): string {
  return `${counted(files, 'file')}, ${size} bytes`;
}
