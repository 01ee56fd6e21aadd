/** A provider setting with its secrets opened, as the runtime can use it, or why it cannot. */
import { type LiteralProvider, type ProviderCandidate, resolveLiteral } from '../config/config.ts';
import type { ProviderSetting } from '../contract/api.ts';
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
  const secrets = opened(parts, stored);
  const { type, ...literal } = await resolveLiteral(providerId, { ...entry, ...secrets });
  if (secrets === null)
    return unusable(
      type,
      'Its secrets cannot be opened with the master key of this server',
      'Write them again.',
    );
  // The server may have become one for many since it was written.
  const refused = entry.base_url === undefined ? null : parts.refusalOf(entry.base_url);
  return refused
    ? unusable(type, `base_url: ${refused.message}`, 'Write another base_url.')
    : { type, ...literal };
}

function unusable(type: ProviderSetting['type'], message: string, remedy: string): OpenedSetting {
  return { type, candidate: null, diagnostics: [{ severity: 'error', message, remedy }] };
}

/** Null where they cannot be opened: told in the setting's own place, and no reason for anything else to fail. */
function opened({ sealing, log }: ProviderSettingsParts, stored: StoredSetting): SettingSecrets | null {
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
