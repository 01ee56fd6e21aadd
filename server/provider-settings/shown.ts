/** What is told of a provider setting: everything but its secrets, and what keeps it from being used. */
import type { ProviderSetting } from '../contract/api.ts';
import { type OpenedSetting, openSetting } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** Never throws for what the setting says: one that does not work any more is told of, not failed for. */
export async function showSetting(
  parts: ProviderSettingsParts,
  stored: StoredSetting,
): Promise<ProviderSetting> {
  const { entry } = stored;
  const { type, candidate, diagnostics }: OpenedSetting = await openSetting(parts, stored);
  return {
    id: stored.id,
    scope: stored.scope,
    organization_id: stored.organizationId,
    workspace_id: stored.workspaceId,
    provider_id: stored.providerId,
    name: stored.name,
    type,
    base_url: entry.base_url ?? null,
    api_key_set: stored.apiKeySet,
    extra_header_names: [...stored.extraHeaderNames],
    extra_body: entry.extra_body ?? null,
    system_prompt_prefix: entry.system_prompt_prefix ?? null,
    provider_options: entry.provider_options ?? null,
    flat_rate: entry.flat_rate ?? false,
    disable: entry.disable ?? false,
    priority: stored.priority,
    models: [...(entry.models ?? [])],
    usable: candidate !== null && !entry.disable,
    diagnostics: diagnostics.map(({ severity, message, remedy }) => ({ severity, message, remedy })),
    created_at: stored.createdAt,
    updated_at: stored.updatedAt,
  };
}
