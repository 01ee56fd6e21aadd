/** What is known of models: how much they read at once and what they cost. */
import type { PriceCalculation, Provider, Usage as Units } from '@pydantic/genai-prices';
import type { ProviderModel } from '../../contract/config.ts';
import { loadedOnce } from '../../loaded-once.ts';
import { believedCost } from '../models/believed-counts.ts';
import { addCosts, type Cost, wholeCost } from '../models/cost.ts';
import type { ModelFacts, TokenCount } from '../models/model.ts';
import { modelSettings } from './model-settings.ts';
import type { ProviderDefinition } from './provider-definition.ts';

/** A provider, as far as its models go. */
type WithModels = Pick<ProviderDefinition, 'id' | 'models' | 'unlisted' | 'flatRate'>;

/** What the settings say counts; where they say nothing, what catalogues know, then what is known of the vendor's model. */
export async function modelFacts(definition: WithModels, modelId: string): Promise<ModelFacts> {
  const { price, contextWindow } = await listed(definition.id, modelId);
  const described = descriptionsOf(definition, modelId);
  return {
    // 0 stands for "not known", as absence does.
    contextWindow: described.find((entry) => entry.context_window)?.context_window ?? contextWindow,
    maxOutputTokens: described.find((entry) => entry.default_max_tokens)?.default_max_tokens ?? null,
    price: definition.flatRate
      ? () => 0
      : described.reduceRight((rest, entry) => ownPrice(entry, rest) ?? rest, price),
  };
}

/** By settings and catalogues, what counts most first. */
function descriptionsOf({ models, unlisted }: WithModels, modelId: string): readonly ProviderModel[] {
  const listed = models.find(({ id }) => id === modelId);
  if (!listed) return unlisted?.get(modelId) ?? [];
  const { settings, known = [] } = listed;
  return settings ? [settings, ...known] : known;
}

/** What is known of a model, in the words of `service.json`; null where nobody says. */
export interface DescribedModel {
  readonly settings: ProviderModel;
  readonly contextWindow: number | null;
  readonly maxOutputTokens: number | null;
  /** Of a million tokens, in dollars: as they are asked, answered, written to a cache, and read from one. */
  readonly rates: { readonly [Kind in 'in' | 'out' | 'written' | 'read']: Cost };
}

/** All that is known of a model of a provider, what counts most first. */
export async function describeModel(definition: WithModels, modelId: string): Promise<DescribedModel> {
  const { contextWindow, maxOutputTokens, price } = await modelFacts(definition, modelId);
  const settings = modelSettings(definition.models.find(({ id }) => id === modelId));
  const rate = (thousand: Partial<TokenCount>) => rateOf(price, thousand);
  return {
    settings: settings ?? { id: modelId },
    ...{ contextWindow, maxOutputTokens },
    rates: {
      in: rate({ input_tokens: 1000 }),
      out: rate({ output_tokens: 1000 }),
      written: rate({ input_tokens: 1000, cacheWriteTokens: 1000 }),
      read: rate({ input_tokens: 1000, cached_input_tokens: 1000 }),
    },
  };
}

/** The models of a vendor that the list which is part of the program names, by the id that the vendor has here. */
export async function vendorModels(providerId: string): Promise<readonly { id: string; name: string }[]> {
  const { findProvider } = await import('@pydantic/genai-prices');
  const vendorId = vendors.get(providerId) ?? providerId;
  const vendor = findProvider({ providerId: vendorId });
  if (vendor?.id !== vendorId) return [];
  return vendor.models.map(({ id, name }) => ({ id, name: name ?? id }));
}

/** Whether the list that is part of the program knows a model of a vendor, by the id that the vendor has here. */
export async function isVendorModel(providerId: string, modelId: string): Promise<boolean> {
  const calculate = await calculation(providerId, modelId);
  return calculate?.({ input_tokens: 0, output_tokens: 0 }) != null;
}

/** Tokens of a picture or a sound, which may have prices of their own. */
export interface MediaTokens {
  readonly input: number;
  readonly output: number;
  /** Of the input. */
  readonly heard: number;
  /** What the output is. */
  readonly made: 'image' | 'audio' | 'text';
}

/** What a call for a picture or a sound costs; null where that is not known, as where the vendor counts no tokens. */
export async function mediaCost(
  definition: WithModels,
  modelId: string,
  { input, output, heard, made }: MediaTokens,
): Promise<Cost> {
  if (definition.flatRate) return 0;
  if (input + output === 0) return null;
  const own = descriptionsOf(definition, modelId).reduceRight<Price | null>(
    (rest, entry) => ownPrice(entry, rest ?? (() => null)) ?? rest,
    null,
  );
  if (own) return believedCost(own({ ...nothing, input_tokens: input, output_tokens: output }));
  const calculate = await calculation(definition.id, modelId);
  const found = calculate?.({
    input_tokens: input,
    output_tokens: output,
    ...(heard > 0 && { input_audio_tokens: heard }),
    ...(made !== 'text' && { [`output_${made}_tokens`]: output }),
  });
  // A list that knows a price in other units than tokens would make a gift of it.
  return found?.total_price ? believedCost(wholeCost(found.total_price)) : null;
}

type Price = ModelFacts['price'];

interface Listed {
  readonly contextWindow: number | null;
  readonly price: Price;
}

const unlisted: Listed = { contextWindow: null, price: () => null };

/** Vendors under the ids that providers have here. */
const vendors = new Map([
  ['gemini', 'google'],
  ['vertexai', 'google'],
]);

/**
 * Only where the provider's id is the vendor's: a gateway may ask another price for the same model, and a server of
 * one's own may read less of it at once. The list is part of this program, and large, so that it is read when it is first needed.
 */
async function listed(providerId: string, modelId: string): Promise<Listed> {
  const calculate = await calculation(providerId, modelId);
  const found = calculate?.({ input_tokens: 0, output_tokens: 0 });
  if (!calculate || !found) return unlisted;
  return {
    contextWindow: found.model.context_window ?? null,
    price: (count) => {
      const answer = calculate(unitsOf(count));
      return answer && wholeCost(answer.total_price);
    },
  };
}

/** To resolve the import takes as long as the rest of the look-up. */
const prices = loadedOnce(() => import('@pydantic/genai-prices'));

async function calculation(
  providerId: string,
  modelId: string,
): Promise<((units: Units) => PriceCalculation | null) | null> {
  const { calcPrice, findProvider } = await prices();
  const vendorId = vendors.get(providerId) ?? providerId;
  const vendor = foundVendors.get(vendorId) ?? foundVendor(findProvider({ providerId: vendorId }), vendorId);
  if (vendor === 'none') return null;
  return (units) => calculated(calcPrice, units, modelId, vendor);
}

/** Each call asks for the vendor of its provider, which is looked for by patterns: those of the list do not change. */
const foundVendors = new Map<string, Provider | 'none'>();

/** People choose the ids of their providers. */
const mostVendors = 1000;

function foundVendor(found: Provider | undefined, id: string): Provider | 'none' {
  const vendor = found?.id === id ? found : 'none';
  if (foundVendors.size >= mostVendors) foundVendors.clear();
  foundVendors.set(id, vendor);
  return vendor;
}

function calculated(
  calcPrice: typeof import('@pydantic/genai-prices').calcPrice,
  units: Units,
  modelId: string,
  provider: Provider,
): PriceCalculation | null {
  return calcPrice(units, modelId, { provider });
}

function unitsOf(count: TokenCount): Units {
  const { input_tokens, output_tokens, cached_input_tokens } = count;
  const { cacheWriteTokens = 0, longCacheWriteTokens = 0, webSearches = 0 } = count;
  const read = Math.min(cached_input_tokens, input_tokens);
  const written = Math.min(cacheWriteTokens, input_tokens - read);
  const long = Math.min(longCacheWriteTokens, written);
  return {
    ...{ input_tokens, output_tokens, cache_read_tokens: read, cache_write_tokens: written },
    ...(long > 0 && { cache_write_1h_tokens: long }),
    ...(webSearches > 0 && { web_searches: webSearches }),
  };
}

/** Null where the settings name no price. One that they leave out is that of the list, as long as it can be. */
function ownPrice(settings: ProviderModel, listedPrice: Price): Price | null {
  const { cost_per_1m_in, cost_per_1m_out, cost_per_1m_in_cached, cost_per_1m_out_cached } = settings;
  const named = [cost_per_1m_in, cost_per_1m_out, cost_per_1m_in_cached, cost_per_1m_out_cached];
  if (named.every((price) => price === undefined)) return null;
  const rate = (part: Partial<TokenCount>) => rateOf(listedPrice, part);
  const input = cost_per_1m_in ?? rate({ input_tokens: 1000 });
  const output = cost_per_1m_out ?? rate({ output_tokens: 1000 });
  const usual = cost_per_1m_in === undefined;
  const read =
    cost_per_1m_out_cached ?? (usual ? rate({ input_tokens: 1000, cached_input_tokens: 1000 }) : input);
  const written =
    cost_per_1m_in_cached ?? (usual ? rate({ input_tokens: 1000, cacheWriteTokens: 1000 }) : input);
  const rates = { input, output, read, written };
  return (count) => {
    const { webSearches = 0 } = count;
    // No setting names their price.
    const searches = webSearches > 0 ? listedPrice({ ...nothing, webSearches }) : 0;
    return addCosts(totalOf(unitsOf(count), rates), searches ?? 0);
  };
}

/** Of a thousand tokens, in dollars for a million. Beyond some lengths vendors ask for more: the usual price is that of a short call. */
function rateOf(price: Price, thousand: Partial<TokenCount>): Cost {
  const cost = price({ ...nothing, ...thousand });
  return cost === null ? null : wholeCost(cost * 1000);
}

const nothing: TokenCount = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

/** Dollars for a million tokens of each kind. */
interface Rates {
  readonly input: Cost;
  readonly output: Cost;
  readonly read: Cost;
  readonly written: Cost;
}

function totalOf(units: Units, { input, output, read, written }: Rates): Cost {
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = units;
  const parts: readonly [tokens: number, rate: Cost][] = [
    [input_tokens - cache_read_tokens - cache_write_tokens, input],
    [output_tokens, output],
    [cache_read_tokens, read],
    [cache_write_tokens, written],
  ];
  let sum = 0;
  for (const [tokens, rate] of parts) {
    if (tokens > 0 && rate === null) return null;
    sum += tokens * (rate ?? 0);
  }
  return wholeCost(sum / 1_000_000);
}
