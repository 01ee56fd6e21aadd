/** `service skills enable`, `disable` and `remove`. */
import type { SkillScope } from '@service/client/api';
import { askYesNo, canAsk } from '../ask.ts';
import { withService } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { unless } from '../lost-answers.ts';
import { notice, print, printable } from '../output.ts';
import { findAddedSkill, findSkill } from '../skill-names.ts';
import { forWhom } from './skill-making.ts';
import { stateOf } from './skills.ts';

interface Where {
  readonly server?: string;
  readonly scope?: SkillScope;
}

/** By its name, whichever skill bears it. */
export async function switchSkill(
  step: 'enable' | 'disable',
  given: string,
  { server, scope = 'user' }: Where,
): Promise<void> {
  await withService(server, async (client) => {
    const { id, name } = await findSkill(client, given);
    const call = { params: { path: { skill_id: id } }, body: { scope } };
    const { data } =
      step === 'enable'
        ? await client.POST('/api/v1/skills/{skill_id}/enable', call)
        : await client.POST('/api/v1/skills/{skill_id}/disable', call);
    print(printable(`${step === 'enable' ? 'Enabled' : 'Disabled'} ${name} for ${forWhom(scope)}`));
    if (step === 'enable' && !data.enabled)
      notice(`Agents are not offered it all the same: ${stateOf(data)}.`);
  });
}

/** After a question. */
export async function removeSkill(
  given: string,
  { server, scope, yes }: Where & { readonly yes?: boolean },
): Promise<void> {
  if (!yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes removes without asking.',
      exitCodes.usage,
    );
  await withService(server, async (client) => {
    const { id: skill_id, name, scope: its } = await findAddedSkill(client, given, scope);
    const sure = yes || (await askYesNo(printable(`Remove ${name} from ${forWhom(its)}, with its files?`)));
    if (!sure) return notice('Nothing was removed.');
    const params = { path: { skill_id } };
    const { response } = await client.GET('/api/v1/skills/{skill_id}', { params });
    const header = { 'If-Match': response.headers.get('ETag') ?? '' };
    await client.DELETE('/api/v1/skills/{skill_id}', { params: { ...params, header } }).catch(unless(404));
    print(printable(`Removed ${name} (${skill_id})`));
  });
}
