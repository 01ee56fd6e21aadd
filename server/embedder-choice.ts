/** What the operator may make of the embedder's settings: the change that a patch means, and the settings as they are shown. */
import type { EmbedderSettings, EmbedderSettingsUpdate } from './contract/api.ts';
import {
  type Embedders,
  embeddedDimensions,
  embeddedIdentity,
  embeddedModel,
  type ProviderChoice,
  type WantedEmbedder,
} from './knowledge/knowledge.ts';
import { Problem } from './problem.ts';
import type { Reach, Store } from './store/store.ts';

export interface TaggedEmbedder {
  readonly settings: EmbedderSettings;
  readonly etag: string;
}

export interface EmbedderTerms {
  readonly ifMatch: string;
  readonly reindex: boolean;
  readonly signal: AbortSignal;
}

export interface EmbedderChoice {
  read(): Promise<TaggedEmbedder>;
  /** Throws Problem: `corpora_stale`, `embedder_unsuited`, or what the provider has to say, among others. */
  change(operator: Reach, patch: EmbedderSettingsUpdate, terms: EmbedderTerms): Promise<TaggedEmbedder>;
  /** Has a text embedded. Throws Problem. */
  test(signal: AbortSignal): Promise<{ readonly model: string; readonly dimensions: number }>;
}

export interface EmbedderChoiceParts {
  readonly store: Pick<Store, 'embedderSettings' | 'providerSettings'>;
  readonly embedders: Embedders;
  /** Called when corpora may have to be embedded anew. */
  readonly changed: () => void;
}

export function createEmbedderChoice({ store, embedders, changed }: EmbedderChoiceParts): EmbedderChoice {
  const shown = async (stored: Stored): Promise<TaggedEmbedder> => {
    const atHand = await embedders.current();
    const settings = show(stored, atHand.embedder ? null : atHand.reason);
    return { settings, etag: stored.etag };
  };

  /** Null where the model of the server embeds. */
  const wanted = async (
    operator: Reach,
    before: ProviderChoice | null,
    patch: EmbedderSettingsUpdate,
    signal: AbortSignal,
  ): Promise<ProviderChoice | null> => {
    const place = placeOf(before, patch);
    // What stays as it is need not be asked again.
    if (!place || Object.keys(patch).every((name) => name === 'batch_size'))
      return before && place ? before : null;
    const { providerSettingId } = place;
    if (providerSettingId !== null && !(await store.providerSettings.find(operator, providerSettingId)))
      throw new Problem('not_found', 'No provider setting has this id, or it is not yours.');
    return await embedders.tried(place, signal);
  };

  return {
    read: async () => shown(await store.embedderSettings.read(await embedders.identity())),
    async change(operator, patch, { ifMatch, reindex, signal }) {
      const before = await store.embedderSettings.chosen();
      const chosen = await wanted(operator, before.chosen, patch, signal);
      const identity = chosen?.identity ?? embeddedIdentity;
      const batchSize = patch.batch_size ?? before.batchSize;
      const change = { chosen, batchSize, identity, ifMatch, reindex };
      const stored = await store.embedderSettings.change(operator, change);
      changed();
      return shown(stored);
    },
    async test(signal) {
      const atHand = await embedders.current();
      if (!atHand.embedder) throw new Problem('embedder_failed', atHand.reason);
      const [vector] = await atHand.embedder.embed(['How long is a vector?'], signal);
      const { settings } = await shown(await store.embedderSettings.read(atHand.embedder.identity));
      return { model: settings.model, dimensions: vector?.length ?? 0 };
    },
  };
}

type Stored = Awaited<ReturnType<Store['embedderSettings']['read']>>;

/** Null where the model of the server embeds. Throws `invalid_request` where the members do not fit together. */
function placeOf(before: ProviderChoice | null, patch: EmbedderSettingsUpdate): WantedEmbedder | null {
  const named = patch.provider_setting_id !== undefined || patch.provider !== undefined;
  const providerSettingId = named ? (patch.provider_setting_id ?? null) : (before?.providerSettingId ?? null);
  const provider = named ? (patch.provider ?? null) : (before?.provider ?? null);
  if (providerSettingId !== null && provider !== null)
    throw refused('/provider', 'Name a provider setting or a provider of the settings file, not both.');
  if (providerSettingId === null && provider === null) return withoutModel(patch);
  const model = patch.model ?? (named ? undefined : before?.model);
  if (model === undefined) throw refused('/model', 'Name the model of the provider with it.');
  // What was counted of another model says nothing about this one.
  const asked = before?.asksDimensions ? before.dimensions : null;
  const kept = named || patch.model !== undefined ? null : asked;
  const dimensions = patch.dimensions === undefined ? kept : patch.dimensions;
  return { providerSettingId, provider, model, dimensions };
}

/** The model of the server is what it is. */
function withoutModel({ model, dimensions }: EmbedderSettingsUpdate): null {
  const advice = 'It counts with a provider only: name provider_setting_id or provider with it.';
  if (model !== undefined && model !== embeddedModel) throw refused('/model', advice);
  if (dimensions !== undefined && dimensions !== null && dimensions !== embeddedDimensions)
    throw refused('/dimensions', advice);
  return null;
}

function refused(pointer: string, message: string): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'embedder' }],
  });
}

function show({ chosen, batchSize, corpora, updatedAt }: Stored, reason: string | null): EmbedderSettings {
  return {
    provider_setting_id: chosen?.providerSettingId ?? null,
    provider: chosen?.provider ?? null,
    model: chosen?.model ?? embeddedModel,
    dimensions: chosen?.dimensions ?? embeddedDimensions,
    batch_size: batchSize,
    identity: chosen?.identity ?? embeddedIdentity,
    ready: reason === null,
    reason,
    corpora,
    updated_at: updatedAt,
  };
}
