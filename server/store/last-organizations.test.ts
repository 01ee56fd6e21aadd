/** Organizations at the moment that their people go, or that they are the last of somebody: on both engines. */
import { expect, it } from 'vitest';
import { waiting } from './test-locks.ts';
import { homeOf, organizationTools, refusals } from './test-organizations.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('The last organization of somebody', (store, engine) => {
  const { reachOf, nodes } = organizationTools(store, engine);

  it('stays where they delete all of them at once', async () => {
    const ada = await newAccount(store());
    const second = (await store().organizations.create(ada, { name: 'Second' })).organization.id;
    const reach = await reachOf(ada, 'owner');
    const [one, other] = await nodes();
    const tagOf = async (id: string) => (await store().organizations.find(reach, id))?.etag ?? '';
    const tags = [await tagOf(homeOf(ada)), await tagOf(second)];
    const codes = await refusals([
      one.organizations.delete(reach, homeOf(ada), tags[0]),
      other.organizations.delete(reach, second, tags[1]),
    ]);
    expect(codes).toEqual(['only_organization']);
    expect((await reachOf(ada)).organizationIds).toHaveLength(1);
  });
});

describeStore('postgresql', 'An organization', (store, engine) => {
  const { reachOf, colleague } = organizationTools(store, engine);

  it('that somebody founds while their account is deleted is not left without anybody', async () => {
    const owner = await newAccount(store(), 'Owner');
    const person = await colleague(owner, 'member');
    const operator = { ...(await reachOf(owner, 'admin')), operator: true };
    const reach = await reachOf(person);
    const founding = { name: 'Left behind' };
    // Keeps the deletion where it leaves the organizations, one after the other.
    const { deleted, founded } = await engine.sql().transaction(async (sql) => {
      await sql('organizations')
        .where({ id: homeOf(owner) })
        .forNoKeyUpdate()
        .first('id');
      const deletion = store().people.delete(operator, person.userId, {});
      await expect.poll(() => waiting(engine.sql())).toBe(1);
      const foundation = store().organizations.create(reach, founding);
      foundation.catch(() => undefined);
      await expect.poll(() => waiting(engine.sql())).toBe(2);
      return { deleted: () => deletion, founded: () => foundation };
    });
    await deleted();
    await expect(founded()).rejects.toMatchObject({ code: 'credential_invalid' });
    expect(await engine.sql()('organizations').where(founding)).toEqual([]);
  });
});
