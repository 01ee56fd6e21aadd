/** The journey of an operator who names a git repository of skills that does not answer. */
import { expect, test, vi } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const list = '/api/v1/skills/repositories';
const url = '/api/v1/skills/repositories/{repository_id}';

export function skillRepositoryJourneys(target: () => Target): void {
  test('an operator names a repository of skills, is told why it cannot be fetched, and removes it', async () => {
    const { operator, client, liveOnly } = target();
    const added = await operator.POST(list, {
      body: { url: 'http://127.0.0.1:9/house/skills.git', ref: 'main', token: 'not-a-real-token' },
    });
    expect(added.response.status).toBe(201);
    expectShape('SkillRepository', added.data);
    const path = { repository_id: example.skillRepository };
    await liveOnly(() => {
      path.repository_id = added.data.id;
      expect(added.data).toMatchObject({ name: 'skills', has_token: true, state: 'idle' });
      expect(added.response.headers.get('Location')).toBe(`${list}/${path.repository_id}`);
    });
    const { data: page } = await client.GET(list);
    expectShape('SkillRepositoryPage', page);
    const read = await operator.GET(url, { params: { path } });
    expectShape('SkillRepository', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const changed = await operator.PATCH(url, {
      params: { path, header },
      body: { name: 'Skills of the house' },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    expectShape('SkillRepository', changed.data);
    await liveOnly(async () => {
      expect(changed.data).toMatchObject({ name: 'Skills of the house', ref: 'main' });
      const nobody = await refusal(client.GET(url, { params: { path } }));
      expect(nobody).toMatchObject({ status: 403, code: 'role_required' });
    });
    const begun = await operator.POST(`${url}/sync`, { params: { path } });
    expect(begun.response.status).toBe(202);
    expectShape('SkillRepository', begun.data);
    await liveOnly(() =>
      vi.waitFor(async () => {
        const { data } = await operator.GET(url, { params: { path } });
        expect(data.state).toBe('failed');
        expect(data.error).toContain('could not be reached');
      }, 20_000),
    );
    const shown = await refusal(operator.GET(`${url}/proposal`, { params: { path }, ...preferring(404) }));
    expect(shown).toMatchObject({ status: 404, code: 'not_found' });
    const unseen = await refusal(
      operator.POST(`${url}/apply`, {
        params: { path },
        body: { commit: '0'.repeat(40) },
        ...preferring(409),
      }),
    );
    expect(unseen).toMatchObject({ status: 409, code: 'skill_repository_conflict' });
    expect((await operator.DELETE(url, { params: { path } })).response.status).toBe(204);
  });
}
