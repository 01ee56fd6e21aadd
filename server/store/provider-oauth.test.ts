/** OAuth connections of provider settings, and what renews them while they are taken away and made anew: on both engines. */
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('The OAuth connection of a provider setting', (store) => {
  it.each(['at once', 'after a disconnect'])(
    'that came %s after another takes nothing of its renewal',
    async (how) => {
      const reach = await newAccount(store());
      const id = newId('providerSetting');
      const owner = { scope: 'user' as const, organizationId: null, workspaceId: null };
      const content = { name: 'Plan', priority: 0, entry: {}, apiKeySet: false, extraHeaderNames: [] };
      const setting = { ...content, secrets: null, id, providerId: 'anthropic' };
      await store().providerSettings.create(reach, owner, setting);
      const oauth = store().providerOauth;
      const tokensOf = (account: string) => ({ tokens: account, expiresAt: null, scopes: [] });
      await oauth.connect(reach, id, tokensOf('of one account'));
      const { revision = 0 } = (await oauth.find(id)) ?? {};
      if (how === 'after a disconnect') await oauth.disconnect(reach, id);
      await oauth.connect(reach, id, tokensOf('of another'));
      await oauth.notRenewed(id, revision, { fault: 'it is refused', answerLost: false });
      expect(await oauth.find(id)).toMatchObject({ tokens: 'of another', fault: null });
      await oauth.renewed(id, revision, tokensOf('of one account, renewed'));
      expect(await oauth.find(id)).toMatchObject({ tokens: 'of another', fault: null });
    },
  );
});
