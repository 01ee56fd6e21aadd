/** Asks the provider of a setting: whether it takes the credential, and which models it lists. */
import type { ModelDiscovery, ProblemCode, ProviderTest } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { placeOf, readableModels } from './discovered.ts';
import type { OwnProvider } from './for-runs.ts';
import { knownModels, type VendorKnowledge } from './known-models.ts';
import { openSetting } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** Why a provider could not be asked, in words that anybody may read. */
interface Failure {
  readonly code: ProblemCode;
  readonly message: string;
  readonly retryAfterMs: number | null;
}

export interface ProviderAskers extends VendorKnowledge {
  /** `no_list` of one that has no such endpoint. */
  list(
    provider: OwnProvider,
    signal: AbortSignal,
  ): Promise<{ readonly models: readonly object[] } | { readonly failure: Failure | 'no_list' }>;
  /** One model for a word; null where it answers. */
  askShortly(provider: OwnProvider, modelId: string, signal: AbortSignal): Promise<Failure | null>;
}

export interface AskingParts extends ProviderSettingsParts {
  readonly askers: ProviderAskers;
  /** By whom a look is kept; the store's own fits. */
  readonly discoveries: ProviderSettingsParts['discoveries'] & {
    claim(settingId: string, place: string, until: number): Promise<boolean>;
    found(settingId: string, place: string, models: readonly object[]): Promise<void>;
    failed(settingId: string, place: string, fault: string): Promise<void>;
  };
}

export interface ProviderAsking {
  /** Throws `provider_failed` or `provider_timeout` where nothing came of it. */
  test(stored: StoredSetting, signal: AbortSignal): Promise<ProviderTest>;
  /** Begins a look, unless one is at work; it ends by itself. */
  refresh(stored: StoredSetting): Promise<ModelDiscovery>;
  /** Ends the looks at work. */
  close(): Promise<void>;
}

/** How long a provider has to answer. */
const waitMs = 15_000;
/** A node that dies while it looks is followed after that. */
const claimMs = 60_000;

export function createProviderAsking(parts: AskingParts): ProviderAsking {
  const { askers, discoveries, log } = parts;
  const looks = new Set<Promise<void>>();
  const stopping = new AbortController();

  async function look(stored: StoredSetting): Promise<void> {
    const place = placeOf(stored);
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(waitMs)]);
    const fault = (words: string) => discoveries.failed(stored.id, place, words);
    const { candidate, diagnostics } = await openSetting(parts, stored);
    // It may lack nothing but models.
    const provider = candidate ?? (await withoutModels(parts, stored));
    if (!provider) return await fault(diagnostics[0]?.message ?? 'The setting cannot be used.');
    const answer = await askers.list({ ...provider, giver: 'account' }, signal);
    if ('models' in answer) return await discoveries.found(stored.id, place, readableModels(answer.models));
    await fault(answer.failure === 'no_list' ? noList : answer.failure.message);
  }

  function begin(stored: StoredSetting): void {
    const work = look(stored).catch((error: unknown) =>
      log.error(
        { err: error, provider_setting_id: stored.id },
        'the models of a provider were not looked for',
      ),
    );
    looks.add(work);
    void work.finally(() => looks.delete(work));
  }

  return {
    async test(stored, signal) {
      const opened = await openSetting(parts, stored);
      const candidate = opened.candidate ?? (await withoutModels(parts, stored));
      if (!candidate) return unusable(opened.diagnostics[0]?.message ?? 'The setting cannot be used.');
      const provider = { ...candidate, giver: 'account' } as const;
      const bounded = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
      const began = performance.now();
      const answer = await askers.list(provider, bounded);
      const [model] = provider.models;
      const failure =
        'models' in answer
          ? null
          : answer.failure !== 'no_list'
            ? answer.failure
            : model
              ? await askers.askShortly(provider, model.id, bounded)
              : { code: 'provider_request_refused' as const, message: noList, retryAfterMs: null };
      const latency_ms = Math.round(performance.now() - began);
      if (failure) return refused(failure, latency_ms);
      const models_seen = 'models' in answer ? readableModels(answer.models).length : null;
      return { ok: true, latency_ms, models_seen, error: null };
    },
    async refresh(stored) {
      const until = Date.now() + claimMs;
      if (await discoveries.claim(stored.id, placeOf(stored), until)) begin(stored);
      const { discovery } = await knownModels(parts, askers, stored);
      return { ...discovery, refreshing: true };
    },
    async close() {
      stopping.abort();
      await Promise.all(looks);
    },
  };
}

const noList = 'The provider has no list of its models; describe them in the setting.';

/** A provider that is not built in needs a model to be used, and none to be asked which it has. */
async function withoutModels(parts: ProviderSettingsParts, stored: StoredSetting) {
  if (stored.entry.models?.length) return null;
  const placeholder = { ...stored, entry: { ...stored.entry, models: [{ id: 'any' }] } };
  const { candidate } = await openSetting(parts, placeholder);
  return candidate && { ...candidate, models: [] };
}

function unusable(message: string): ProviderTest {
  const error = { code: 'setting_unusable', message, retry_after_seconds: null } as const;
  return { ok: false, latency_ms: null, models_seen: null, error };
}

const refusals = ['provider_refused', 'provider_request_refused', 'provider_rate_limited'] as const;

/** What the provider says against the setting is an answer; that it says nothing of use is a failure. */
function refused({ code, message, retryAfterMs }: Failure, latency_ms: number): ProviderTest {
  const said = refusals.find((refusal) => refusal === code);
  if (!said) throw new Problem(code, message);
  const retry_after_seconds = retryAfterMs === null ? null : Math.ceil(retryAfterMs / 1000);
  return { ok: false, latency_ms, models_seen: null, error: { code: said, message, retry_after_seconds } };
}
