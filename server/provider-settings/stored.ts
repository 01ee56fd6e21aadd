/** A provider setting as it is stored, and its secrets. */
import type { ProviderSetting } from '../contract/api.ts';
import type { Provider } from '../contract/config.ts';

/** What a setting says. The store's own type fits. */
export interface SettingContent {
  readonly name: string;
  readonly priority: number;
  /** As an entry of service.json has it, without secrets. */
  readonly entry: Provider;
  readonly apiKeySet: boolean;
  readonly extraHeaderNames: readonly string[];
  /** Sealed; null where there are none. */
  readonly secrets: string | null;
}

export interface StoredSetting extends SettingContent {
  readonly id: string;
  readonly scope: ProviderSetting['scope'];
  readonly organizationId: string | null;
  readonly workspaceId: string | null;
  readonly providerId: string;
  /** The members of its entry that this version cannot read, and that are left out of it. */
  readonly strange: readonly string[];
  readonly revision: number;
  /** Tells one list of what its provider lists from another; null where there is none, absent where nobody has looked. */
  readonly discoveredMark?: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What a look has brought, as it is stored. */
export interface Discovery {
  readonly place: string;
  /** As JSON; null where it cannot be read. */
  readonly models: string | null;
  readonly discoveredAt: number | null;
  readonly checkedAt: number | null;
  readonly fault: string | null;
  readonly refreshing: boolean;
}

/** What is never told. */
export type SettingSecrets = Pick<Provider, 'api_key' | 'extra_headers'>;

/** Seals secrets and opens them in the row that they belong to. */
export interface Sealing {
  seal(secret: Uint8Array, rowId: string): string;
  /** Throws where it cannot be opened with the master key of this server. */
  open(sealed: string, rowId: string): Buffer;
}

export function sealSecrets(sealing: Sealing, id: string, secrets: SettingSecrets): string | null {
  if (Object.keys(secrets).length === 0) return null;
  return sealing.seal(Buffer.from(JSON.stringify(secrets)), rowId(id));
}

export function openSecrets(
  sealing: Sealing,
  { id, secrets }: Pick<StoredSetting, 'id' | 'secrets'>,
): SettingSecrets {
  // What was sealed here, and cannot have been changed since.
  return secrets === null ? {} : (JSON.parse(sealing.open(secrets, rowId(id)).toString()) as SettingSecrets);
}

function rowId(id: string): string {
  return `provider_settings/${id}`;
}
