/** What a provider setting becomes when it is written: checked as a provider of service.json is, its secrets sealed. */
import { resolveLiteral } from '../config/config.ts';
import type { ProviderSettingCreate, ProviderSettingUpdate } from '../contract/api.ts';
import type { Provider } from '../contract/config.ts';
import { Problem } from '../problem.ts';
import { discoveredModels } from './discovered.ts';
import { openedSecrets, withToken } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import { type SettingContent, type StoredSetting, sealSecrets } from './stored.ts';

/** All that a setting says, secrets included, in the words of service.json. */
interface Whole {
  readonly name: string;
  readonly priority: number;
  readonly provider: Provider;
}

/** Throws `invalid_request`. */
export function writeSetting(
  parts: ProviderSettingsParts,
  id: string,
  { scope: _, workspace_id: _workspace, organization_id: _organization, ...body }: ProviderSettingCreate,
): Promise<SettingContent> {
  const { provider_id, name = provider_id, priority = 0, ...provider } = body;
  return contentOf(parts, { id, providerId: provider_id }, { name, priority, provider });
}

/** Throws `invalid_request`. */
export function changeSetting(
  parts: ProviderSettingsParts,
  stored: StoredSetting,
  patch: ProviderSettingUpdate,
): Promise<SettingContent> {
  const { name = stored.name, priority = stored.priority, ...changes } = patch;
  // What is left out by mistake would be lost with this change.
  const strange = stored.strange.find((member) => !(member in changes));
  if (strange !== undefined) throw unreadable(strange);
  // Those that cannot be opened any more have to be written again.
  const before = { ...stored.entry, ...openedSecrets(parts, stored) };
  // A merge patch of what the schema allows makes again what the schema allows.
  const provider = merged(before, changes) as Provider;
  return contentOf(parts, stored, { name, priority, provider });
}

async function contentOf(
  parts: ProviderSettingsParts,
  { id, providerId }: Pick<StoredSetting, 'id' | 'providerId'>,
  { name, priority, provider }: Whole,
): Promise<SettingContent> {
  // One that is disabled may wait for its key, or for somebody who connects it.
  const waits =
    provider.api_key === undefined && (provider.disable || (await parts.oauth.show(id)).connected);
  const judged = waits ? withToken(provider, 'to be asked for') : provider;
  const { type, diagnostics } = await resolveLiteral(
    providerId,
    judged,
    await modelsElsewhere(parts, id, provider),
  );
  const [fault] = diagnostics;
  // A warning is refused as well: what has no effect is not what was meant.
  if (fault) throw refusal(`${fault.message}. ${fault.remedy}`);
  const refused = provider.base_url === undefined ? null : parts.refusalOf(provider.base_url);
  if (refused) throw refusal(`base_url: ${refused.message}`, refused);
  const { api_key, extra_headers = {}, ...entry } = provider;
  const names = Object.keys(extra_headers);
  const secrets = { ...(api_key !== undefined && { api_key }), ...(names.length > 0 && { extra_headers }) };
  return {
    ...{ name, priority },
    entry: { ...entry, type },
    apiKeySet: api_key !== undefined,
    extraHeaderNames: names,
    secrets: sealSecrets(parts.sealing, id, secrets),
  };
}

/** One that is disabled may wait for the models that its provider lists; one that has them needs no others. */
async function modelsElsewhere(
  parts: ProviderSettingsParts,
  id: string,
  entry: Provider,
): Promise<readonly string[]> {
  if (entry.disable) return ['to be discovered'];
  const models = await discoveredModels(parts, { id, entry });
  return models.map((model) => model.id);
}

function unreadable(member: string): Problem {
  return refusal(
    member === ''
      ? 'This version of the server cannot read what is stored of it. Delete it, and make another.'
      : `This version of the server cannot read ${member}. Write it again.`,
  );
}

const fields = ['base_url', 'api_key', 'extra_headers', 'extra_body', 'models'] as const;

function refusal(message: string, cause?: Error): Problem {
  const field = fields.find((name) => message.includes(name));
  const pointer = field === undefined ? '' : `/${field}`;
  return new Problem('invalid_request', message, {
    errors: [{ in: 'body', pointer, message, code: 'provider' }],
    ...(cause && { cause }),
  });
}

/** RFC 7396. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else Object.defineProperty(result, key, { ...own, value: merged(result[key], value) });
  }
  return result;
}

/** A member called `__proto__` is one like any other. */
const own = { configurable: true, enumerable: true, writable: true };

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
