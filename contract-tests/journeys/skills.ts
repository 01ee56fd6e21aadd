/** Journeys of skills: validated, created, replaced, disabled, enabled and deleted. */
import { expect, test } from 'vitest';
import { formOf } from '../access/wire.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/skills/{skill_id}';
const text = (description: string) =>
  `---\nname: release-notes\ndescription: ${description}\n---\nRead first.\n`;

export function skillJourneys(target: () => Target): void {
  test('a skill is validated, created, replaced, disabled, enabled and deleted', async () => {
    const { client, liveOnly } = target();
    const file = text('Writes release notes.');
    const looked = await client.POST('/api/v1/skills/validate', {
      body: { file: '---' },
      bodySerializer: formOf,
    });
    expectShape('SkillValidation', looked.data);
    expect(looked.data.valid).toBe(false);
    const made = await client.POST('/api/v1/skills', {
      body: { scope: 'workspace', file },
      bodySerializer: formOf,
    });
    expect(made.response.status).toBe(201);
    expectShape('Skill', made.data);
    const path = { skill_id: example.skill };
    await liveOnly(() => {
      path.skill_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/skills/${path.skill_id}`);
    });
    const again = await refusal(
      client.POST('/api/v1/skills', {
        body: { scope: 'workspace', file },
        bodySerializer: formOf,
        ...preferring(409),
      }),
    );
    expect(again).toMatchObject({ status: 409, code: 'name_taken' });
    await liveOnly(async () => {
      const broken = await refusal(
        client.POST('/api/v1/skills', {
          body: { scope: 'workspace', file: 'No front matter.' },
          bodySerializer: formOf,
        }),
      );
      expect(broken).toMatchObject({ status: 422, code: 'skill_invalid' });
    });

    const read = await client.GET(url, { params: { path } });
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const changed = await client.PUT(url, {
      params: { path, header },
      body: { file: text('Writes the release notes of a version.') },
      bodySerializer: formOf,
    });
    expectShape('Skill', changed.data);
    const { data: page } = await client.GET('/api/v1/skills', { params: { query: { source: 'user' } } });
    expectShape('SkillPage', page);
    expect(page.data.map(({ name }) => name)).toEqual(['release-notes']);
    const { data: files } = await client.GET(`${url}/files`, { params: { path } });
    expectShape('SkillFileList', files);
    expect(files.data.map((one) => one.path)).toEqual(['SKILL.md']);
    const content = await client.GET(`${url}/content`, { params: { path }, parseAs: 'text' });
    expect(content.data).toContain('name: release-notes');

    const off = await client.POST(`${url}/disable`, { params: { path }, body: { scope: 'user' } });
    expect(off.data).toMatchObject({ enabled: false, disabled_by: 'user' });
    const on = await client.POST(`${url}/enable`, { params: { path }, body: { scope: 'user' } });
    expect(on.data).toMatchObject({ enabled: true, disabled_by: null });
    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });
}
