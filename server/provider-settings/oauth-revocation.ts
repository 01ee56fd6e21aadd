/** Asks a provider to take back what it has given to a setting (RFC 7009), where its client says at which place. */
import { revokeToken, secureUrl, TokenEndpointError } from '../config/config.ts';
import { type OauthParts, openTokens, type SealedTokens } from './oauth-parts.ts';

/** Read now, asked later: what is deleted meanwhile can be taken back all the same. */
export async function revocationOf(parts: OauthParts, settingId: string): Promise<() => Promise<void>> {
  const { fetch, log } = parts;
  const tokens = await openedTokens(parts, settingId);
  const place = secureUrl(tokens?.client.revocation_url ?? '');
  if (!tokens || !place) return async () => undefined;
  return async () => {
    for (const token of tokensIn(tokens)) {
      const hint = token.token_type_hint;
      // Whoever wants to be disconnected is, whatever the provider makes of it.
      const taken = await revokeToken(place, tokens.client, token, fetch).catch((error: unknown) => {
        if (!(error instanceof TokenEndpointError)) throw error;
        return false;
      });
      if (!taken)
        log.warn({ provider_setting_id: settingId, hint }, 'the provider did not take an OAuth token back');
    }
  };
}

/** Null where there are none, or none that this server can open: they can be forgotten all the same. */
async function openedTokens(
  { records, sealing, log }: OauthParts,
  settingId: string,
): Promise<SealedTokens | null> {
  const connection = await records.find(settingId);
  if (!connection) return null;
  try {
    return openTokens(sealing, settingId, connection.tokens);
  } catch (error) {
    log.warn({ err: error, provider_setting_id: settingId }, 'OAuth tokens cannot be opened, or taken back');
    return null;
  }
}

/** With the refresh token servers take back what it has brought; not all of them do. */
function tokensIn({ access_token, refresh_token }: SealedTokens) {
  const access = { token: access_token, token_type_hint: 'access_token' } as const;
  if (refresh_token === undefined) return [access];
  return [{ token: refresh_token, token_type_hint: 'refresh_token' } as const, access];
}
