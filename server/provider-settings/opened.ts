/** A provider setting with its secrets opened, as the runtime can use it, or why it cannot. */
import {
  type LiteralProvider,
  type ProviderCandidate,
  resolveLiteral,
  withCatalog,
  withDiscovered,
} from '../config/config.ts';
import type { ProviderSetting } from '../contract/api.ts';
import type { Provider } from '../contract/config.ts';
import { discoveredModels } from './discovered.ts';
import type { ProviderSettingsParts } from './parts.ts';
import { openSecrets, type SettingSecrets, type StoredSetting } from './stored.ts';

export interface OpenedSetting {
  readonly type: ProviderSetting['type'];
  /** Null where it cannot be used. */
  readonly candidate: ProviderCandidate | null;
  readonly diagnostics: LiteralProvider['diagnostics'];
}

export async function openSetting(
  parts: ProviderSettingsParts,
  stored: StoredSetting,
): Promise<OpenedSetting> {
  const { providerId, entry } = stored;
  const secrets = openedSecrets(parts, stored);
  const whole = { ...entry, ...secrets };
  const connection = whole.api_key === undefined ? await parts.oauth.show(stored.id) : null;
  const provider = connection?.connected ? withToken(whole, 'to be asked for') : whole;
  const discovered = await discoveredModels(parts, stored);
  const ids = discovered.map(({ id }) => id);
  const { type, ...literal } = await resolveLiteral(providerId, provider, ids);
  const [strange] = stored.strange;
  if (strange !== undefined)
    return unusable(
      type,
      `This version of the server cannot read ${strange || 'what is stored of it'}`,
      strange ? `Write ${strange} again.` : 'Delete it, and make another.',
    );
  if (secrets === null)
    return unusable(
      type,
      'Its secrets cannot be opened with the master key of this server',
      'Write them again.',
    );
  // The server may have become one for many since it was written.
  const refused = entry.base_url === undefined ? null : parts.refusalOf(entry.base_url);
  if (refused) return unusable(type, `base_url: ${refused.message}`, 'Write another base_url.');
  if (connection && connection.fault !== null)
    return unusable(type, connection.fault, 'Connect it again with startProviderOauth.');
  if (!literal.candidate) return { type, ...literal };
  const candidate = withCatalog(withDiscovered(literal.candidate, discovered), await parts.catalog());
  const connect = connection?.connected ? connecting(parts, stored, whole, ids) : candidate.connect;
  return { ...literal, type, candidate: { ...candidate, connect } };
}

/** The token is asked for when a model is: another node may have renewed it since. */
function connecting(
  { oauth }: ProviderSettingsParts,
  { id, providerId }: StoredSetting,
  provider: Provider,
  discovered: readonly string[],
): ProviderCandidate['connect'] {
  return async (signal, refused) => {
    const token = await oauth.token(id, refused?.authToken ?? refused?.apiKey);
    const { candidate } = await resolveLiteral(providerId, withToken(provider, token), discovered);
    if (!candidate) throw new Error(`The provider setting ${id} cannot be used any more`);
    return await candidate.connect(signal);
  };
}

/** As an entry of service.json has it: one that counts as long as it is asked for. */
export function withToken(provider: Provider, access_token: string): Provider {
  return { ...provider, oauth: { access_token, expires_in: 3600, expires_at: endOfTime } };
}

/** In seconds since 1970. */
const endOfTime = 253_402_300_799;

function unusable(type: ProviderSetting['type'], message: string, remedy: string): OpenedSetting {
  return { type, candidate: null, diagnostics: [{ severity: 'error', message, remedy }] };
}

/** Null where they cannot be opened: told in the setting's own place, and no reason for anything else to fail. */
export function openedSecrets(
  { sealing, log }: ProviderSettingsParts,
  stored: StoredSetting,
): SettingSecrets | null {
  try {
    return openSecrets(sealing, stored);
  } catch (error) {
    log.warn(
      { err: error, provider_setting_id: stored.id },
      'the secrets of a provider setting cannot be opened',
    );
    return null;
  }
}
