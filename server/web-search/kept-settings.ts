/** The settings as they are kept, and what keeps them: the store happens to fit. */
import type { WebSearchEngineName, WebSearchSettings } from '../contract/api.ts';

export interface KeptSettings extends Readonly<Pick<WebSearchSettings, 'max_results' | 'safe_search'>> {
  readonly engine: WebSearchEngineName | null;
  readonly base_url: string | null;
  readonly sealed_api_key: string | null;
  readonly allow_domains: readonly string[];
  readonly deny_domains: readonly string[];
}

export interface StoredSettings extends KeptSettings {
  /** Null where nothing was ever set. */
  readonly updated_at: string | null;
}

interface Tagged {
  readonly kept: StoredSettings;
  readonly etag: string;
}

export interface SettingsRecords<Operator> {
  /** Asked at each step of a run. */
  current(): Promise<StoredSettings>;
  read(mark: string | null): Promise<Tagged>;
  change(
    operator: Operator,
    change: {
      readonly ifMatch: string;
      readonly mark: string | null;
      merge(before: KeptSettings): KeptSettings;
    },
  ): Promise<Tagged>;
}
