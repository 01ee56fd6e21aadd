/** `service skills list` and `show`: what agents can load before work of one kind. */
import type { Skill } from '@service/client/api';
import { withService } from '../connection.ts';
import {
  brief,
  type Column,
  columnsOf,
  isTerminal,
  notice,
  print,
  printable,
  printJson,
  printTable,
  shown,
} from '../output.ts';
import { findSkill, skillsOf } from '../skill-names.ts';

interface Asked {
  readonly server?: string;
  readonly json?: boolean;
}

/** By name; of several with one name also those that do not count. */
export async function listSkills({ server, json = false }: Asked): Promise<void> {
  const skills = await withService(server, (client) => Array.fromAsync(skillsOf(client)));
  if (skills.length === 0 && !json)
    return notice('Agents have no skill here. service skills add FOLDER adds one.');
  printTable(skills, isTerminal() ? columnsForPeople() : columnsForPrograms, { json });
}

export async function showSkill(
  given: string,
  { server, json, text }: Asked & { readonly text?: boolean },
): Promise<void> {
  await withService(server, async (client) => {
    const skill = await findSkill(client, given);
    const params = { path: { skill_id: skill.id }, query: placeOf(skill) };
    if (text) {
      const { data } = await client.GET('/api/v1/skills/{skill_id}/content', { params, parseAs: 'text' });
      return process.stdout.write(isTerminal() ? shown(data) : data);
    }
    const { data: files } = await client.GET('/api/v1/skills/{skill_id}/files', { params });
    if (json) return printJson({ ...skill, contents: files.data });
    print(printable(`${skill.name} (${skill.id})`));
    if (skill.description !== null) print(`  ${brief(skill.description, 1024)}`);
    print(printable(`  ${originOf(skill)}, ${stateOf(skill)}`));
    if (skill.error !== null) print(`  ${printable(skill.error)}`);
    for (const { path, size, executable } of files.data)
      print(printable(`  ${path}  ${size} bytes${executable ? ', a program' : ''}`));
    if (files.truncated) print('  and more');
  });
}

/** Where one of a workspace is looked at. */
function placeOf({ workspace_id }: Skill) {
  return workspace_id === null ? {} : { workspace_id };
}

/** Whether agents are offered it, and why not. */
export function stateOf({ enabled, error, disabled_by, shadowed_by }: Skill): string {
  if (enabled) return 'enabled';
  if (error !== null) return 'broken';
  if (disabled_by !== null) return `disabled (${disabled_by})`;
  return shadowed_by === null ? 'for people' : 'covered';
}

function originOf({ source, scope }: Skill): string {
  return source === 'user' ? scope : source;
}

const state: Column<Skill> = {
  title: 'state',
  value: stateOf,
  style: ({ enabled, error }) => {
    if (enabled) return 'green';
    return error === null ? 'dim' : 'red';
  },
};

const columnsForPrograms: readonly Column<Skill>[] = [
  { title: 'name', value: ({ name }) => name },
  { title: 'from', value: originOf },
  state,
  { title: 'id', value: ({ id }) => id },
  { title: 'about', value: ({ error, description }) => error ?? description ?? '' },
];

function columnsForPeople(): readonly Column<Skill>[] {
  const width = Math.max(20, columnsOf() - 56);
  return [
    { title: 'name', value: ({ name }) => name, style: 'bold' },
    { title: 'from', value: originOf },
    state,
    { title: 'about', value: ({ error, description }) => brief(error ?? description ?? '', width) },
  ];
}
